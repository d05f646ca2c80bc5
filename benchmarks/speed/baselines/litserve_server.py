"""B3: LitServe with a transformers model and batching, as LitServe's documentation writes an API.

python litserve_server.py TASK CHECKPOINT PORT WORKERS THREADS BATCH_SIZE DELAY_MS
"""

import base64
import io
import sys
from typing import Any

import litserve
import torch
from PIL import Image
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)


class Classifier(litserve.LitAPI):  # type: ignore[misc]
    """JSON in, scores by label out. The hooks are LitServe's."""

    def __init__(self, checkpoint: str, threads: int, **options: Any) -> None:
        super().__init__(**options)
        self.checkpoint = checkpoint
        self.threads = threads

    def batch(self, inputs: list[Any]) -> list[Any]:
        """The processors of transformers take lists."""
        return inputs

    def scores(self, batch: Any) -> list[dict[str, float]]:
        """One run of the network."""
        with torch.inference_mode():
            rows = self.model(**batch).logits.softmax(dim=-1).tolist()
        labels = self.model.config.id2label
        return [{labels[index]: score for index, score in enumerate(row)} for row in rows]

    def unbatch(self, output: list[dict[str, float]]) -> list[dict[str, float]]:
        """One for each request."""
        return output

    def encode_response(self, output: dict[str, float]) -> dict[str, float]:
        """As JSON."""
        return output


class TextClassifier(Classifier):
    """Sentiment."""

    def setup(self, _device: str) -> None:
        """Load the model in the worker."""
        torch.set_num_threads(self.threads)
        self.model = AutoModelForSequenceClassification.from_pretrained(self.checkpoint, trust_remote_code=False).eval()
        self.processor = AutoTokenizer.from_pretrained(self.checkpoint, trust_remote_code=False)

    def decode_request(self, request: litserve.Request) -> str:
        """The text."""
        return str(request["input"])

    def predict(self, inputs: list[str]) -> list[dict[str, float]]:
        """A batch, padded to its longest."""
        return self.scores(self.processor(inputs, padding=True, truncation=True, return_tensors="pt"))


class ImageClassifier(Classifier):
    """Food."""

    def setup(self, _device: str) -> None:
        """Load the model in the worker."""
        torch.set_num_threads(self.threads)
        self.model = AutoModelForImageClassification.from_pretrained(self.checkpoint, trust_remote_code=False).eval()
        self.processor = AutoImageProcessor.from_pretrained(self.checkpoint, trust_remote_code=False)

    def decode_request(self, request: litserve.Request) -> Image.Image:
        """The image."""
        return Image.open(io.BytesIO(base64.b64decode(request["input"]))).convert("RGB")

    def predict(self, inputs: list[Image.Image]) -> list[dict[str, float]]:
        """A batch."""
        return self.scores(self.processor(images=inputs, return_tensors="pt"))


def main() -> None:
    """Serve until terminated."""
    task, checkpoint = sys.argv[1:3]
    port, workers, threads, batch_size, delay_ms = map(int, sys.argv[3:8])
    kind = TextClassifier if task == "sentiment" else ImageClassifier
    api = kind(checkpoint, threads, max_batch_size=batch_size, batch_timeout=delay_ms / 1000)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=workers, timeout=False)
    server.run(host="127.0.0.1", port=port, generate_client_file=False, log_level="warning")


if __name__ == "__main__":
    main()
