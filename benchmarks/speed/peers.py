"""The baselines on other servers: B3 LitServe, B4 MLServer."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from benchmarks.speed.agreement import Answer
from benchmarks.speed.subjects import Subject
from benchmarks.speed.torchserve import BASELINES

PIPELINES = {"sentiment": "text-classification", "food": "image-classification"}
MODEL = "m"
TOKENIZER = "tokenizer.json"


class Json(Subject):
    """A server that is asked in JSON, where an image is base64."""

    def content_type(self) -> str:
        """JSON."""
        return "application/json"

    def encoded(self, data: bytes) -> str:
        """An input as JSON can hold it."""
        return data.decode("utf-8") if self.job.task == "sentiment" else base64.b64encode(data).decode("ascii")


class LitServe(Json):
    """B3."""

    name, title = "B3", "LitServe, batching"
    path = "/predict"

    def command(self, workers: int) -> list[str]:
        """benchmarks/baselines/litserve_server.py."""
        job = self.job
        numbers = (job.port, workers, job.threads, job.batch_size, job.delay_ms)
        script = str(BASELINES / "litserve_server.py")
        return [str(self.python), script, job.task, str(job.checkpoint), *map(str, numbers)]

    def body(self, data: bytes) -> bytes:
        """The documentation's form."""
        return json.dumps({"input": self.encoded(data)}).encode("utf-8")

    def answer(self, raw: str) -> Answer:
        """Scores by label."""
        scores: dict[str, float] = json.loads(raw)
        return Answer(max(scores, key=scores.__getitem__), scores)


class MLServer(Json):
    """B4: MLServer with its Hugging Face runtime and adaptive batching of texts, all by its two files of settings."""

    name, title = "B4", "MLServer, Hugging Face runtime"
    path = f"/v2/models/{MODEL}/infer"

    def prepare(self) -> None:
        """The checkpoint as the runtime's older tokenizers reads it: each merge of the BPE as one string."""
        self._checkpoint.mkdir(exist_ok=True)
        for file in self.job.checkpoint.iterdir():
            copy = self._checkpoint / file.name
            copy.unlink(missing_ok=True)
            copy.symlink_to(file)
        if self.job.task == "sentiment":
            tokenizer = json.loads((self._checkpoint / TOKENIZER).read_text(encoding="utf-8"))
            tokenizer["model"]["merges"] = [" ".join(merge) for merge in tokenizer["model"]["merges"]]
            (self._checkpoint / TOKENIZER).unlink()
            (self._checkpoint / TOKENIZER).write_text(json.dumps(tokenizer), encoding="utf-8")

    @property
    def _checkpoint(self) -> Path:
        return self.home / "checkpoint"

    def command(self, workers: int) -> list[str]:
        """`mlserver start`, beside the Python it is installed for."""
        self._write("settings.json", self._server_settings(workers))
        self._write("model-settings.json", self._model_settings())
        return [str(self.python.with_name("mlserver")), "start", str(self.home)]

    def _server_settings(self, workers: int) -> dict[str, object]:
        ports = {"http_port": self.job.port, "grpc_port": self.job.port + 1, "metrics_port": self.job.port + 2}
        return {"host": "127.0.0.1", "parallel_workers": workers, "debug": False, **ports}

    def _model_settings(self) -> dict[str, object]:
        pipeline = {
            "task": PIPELINES[self.job.task],
            "pretrained_model": str(self._checkpoint),
            "pretrained_tokenizer": str(self._checkpoint) if self.job.task == "sentiment" else None,
        }
        # For a batch the runtime looks at the tokenizer's padding, and a pipeline for images has none.
        batch = {"max_batch_size": self.job.batch_size, "max_batch_time": self.job.delay_ms / 1000}
        return {
            "name": MODEL,
            "implementation": "mlserver_huggingface.HuggingFaceRuntime",
            **(batch if self.job.task == "sentiment" else {}),
            "parameters": {"extra": {key: value for key, value in pipeline.items() if value}},
        }

    def _write(self, name: str, settings: dict[str, object]) -> None:
        (self.home / name).write_text(json.dumps(settings), encoding="utf-8")

    def body(self, data: bytes) -> bytes:
        """The Open Inference Protocol, with the runtime's names and content types."""
        image = {"parameters": {"content_type": "pillow_image"}} if self.job.task == "food" else {}
        # The name under which the runtime hands a batch to the pipeline as one list.
        tensor = {"name": "array_inputs", "shape": [1], "datatype": "BYTES", "data": [self.encoded(data)], **image}
        return json.dumps({"inputs": [tensor]}).encode("utf-8")

    def answer(self, raw: str) -> Answer:
        """The pipeline's own answer, as JSON inside the tensor."""
        (output,) = json.loads(raw)["outputs"]
        value = json.loads(output["data"][0])
        rows = value if isinstance(value, list) else [value]
        scores = {row["label"]: float(row["score"]) for row in rows}
        return Answer(max(scores, key=scores.__getitem__), scores)
