"""B1: what an engineer who knows transformers writes for TorchServe: one tokenizer call, padded to the longest text."""

import os
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from ts.torch_handler.base_handler import BaseHandler


class CarefulHandler(BaseHandler):  # type: ignore[misc]
    """A sequence classifier that answers with every label's score."""

    def initialize(self, context: Any) -> None:
        """Load model and tokenizer, and keep to the thread budget."""
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        directory = Path(context.system_properties["model_dir"])
        self.model: Any = AutoModelForSequenceClassification.from_pretrained(directory, trust_remote_code=False).eval()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
        self.initialized = True

    @torch.inference_mode()
    def handle(self, data: list[dict[str, Any]], _context: Any) -> list[dict[str, float]]:
        """Scores by label of each text."""
        texts = [bytes(row.get("data") or row["body"]).decode("utf-8") for row in data]
        batch = self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        scores = self.model(**batch).logits.softmax(dim=-1).tolist()
        labels = self.model.config.id2label
        return [{labels[index]: score for index, score in enumerate(row)} for row in scores]
