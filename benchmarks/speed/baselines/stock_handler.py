"""B0: as TorchServe's own Hugging Face example does it.

That is: texts are tokenised one by one, each padded to 150 tokens, the rows laid together, and the answer is a label.
Left out is what the example does beside and would only slow it down: it logs each text and prints each tensor, and
its configuration switches on captum and torch.compile's reduce-overhead, which is for GPUs.
"""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from ts.torch_handler.base_handler import BaseHandler

MAX_LENGTH = 150


class StockHandler(BaseHandler):  # type: ignore[misc]
    """A sequence classifier from the files in the archive."""

    def initialize(self, context: Any) -> None:
        """Load model, tokenizer and the names of the labels."""
        directory = Path(context.system_properties["model_dir"])
        self.device = torch.device("cpu")
        self.model: Any = AutoModelForSequenceClassification.from_pretrained(directory, trust_remote_code=False).eval()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
        self.mapping = json.loads((directory / "index_to_name.json").read_text())
        self.initialized = True

    def preprocess(self, data: list[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids and attention mask, int64[B, 150]."""
        ids, masks = [], []
        for row in data:
            body = row.get("data") or row.get("body")
            text = body.decode("utf-8") if isinstance(body, (bytes, bytearray)) else str(body)
            encoded = self.tokenizer(
                text, max_length=MAX_LENGTH, padding="max_length", truncation=True, return_tensors="pt"
            )
            ids.append(encoded["input_ids"])
            masks.append(encoded["attention_mask"])
        return torch.cat(ids), torch.cat(masks)

    @torch.inference_mode()
    def inference(self, data: tuple[torch.Tensor, torch.Tensor]) -> list[str]:
        """The likeliest label of each row."""
        ids, mask = data
        logits = self.model(ids, mask).logits
        return [self.mapping[str(logits[row].argmax().item())] for row in range(len(logits))]

    def postprocess(self, data: list[str]) -> list[str]:
        """The labels as they are."""
        return data
