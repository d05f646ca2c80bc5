"""What transformers answers, to hold the sentiment handler to."""

from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from handlers.sentiment import SentimentHandler
from tests.handlers.worker import Worker
from tests.tiny import MAX_TOKENS, SENTIMENTS


class Reference:
    """What transformers answers: each text alone, without padding."""

    def __init__(self, checkpoint: Path, root: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=False)
        self.model = AutoModelForSequenceClassification.from_pretrained(checkpoint, trust_remote_code=False).eval()
        self.masks = checkpoint.name == "roberta"
        self.root = root
        self.handler = SentimentHandler()
        self.worker = Worker(self.handler, root, {"minWorkers": 1, "handler": {"threads": 1}})
        self.known: dict[str, np.ndarray] = {}

    def ids(self, text: str) -> list[int]:
        text = masked(text) if self.masks else text
        return list(self.tokenizer(text, truncation=True, max_length=MAX_TOKENS)["input_ids"])

    def logits(self, text: str) -> np.ndarray:
        if text not in self.known:
            with torch.inference_mode():
                self.known[text] = self.model(input_ids=torch.tensor([self.ids(text)])).logits[0].numpy()
        return self.known[text]

    def scores(self, text: str) -> dict[str, float]:
        probabilities = torch.softmax(torch.from_numpy(self.logits(text)), -1).tolist()
        return dict(zip(SENTIMENTS, probabilities, strict=True))


def masked(text: str) -> str:
    """The preprocessing of cardiffnlp's model card, as it stands there."""
    words = []
    for word in text.split(" "):
        word = "@user" if word.startswith("@") and len(word) > 1 else word
        word = "http" if word.startswith("http") else word
        words.append(word)
    return " ".join(words)
