"""Entry point of a text classification archive: text in, label and scores out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from handlers.base import BatchHandler
from handlers.decoding import text_of
from handlers.engine import Engine, softmax
from handlers.requests import Item
from handlers.text import TextEncoder, Tokens, pack


class SentimentHandler(BatchHandler[Tokens, tuple[Tokens, Any]]):
    """Classifies texts with the packed graph."""

    def load(self) -> None:
        """Open the tokenizer and the network."""
        text = self.settings.text
        if text is None:
            raise ValueError("serving.json has no text section: this archive is not a text classifier's")
        self.first_position = text.first_position
        self.encoder = TextEncoder(self.model_dir / "tokenizer.json", text.normalise, text.max_tokens)
        self.engine = Engine(self.model_dir / "model.onnx", self.threads)

    def decode(self, item: Item) -> Tokens:
        """Text -> token ids, truncated to what the model reads."""
        return self.encoder.encode(text_of(item, self.settings.options.max_text_bytes))

    def predict(self, instances: Sequence[Tokens]) -> list[tuple[Tokens, Any]]:
        """Each instance with its probabilities float32[labels]."""
        results: list[tuple[Tokens, Any]] = []
        budget = self.settings.options.token_budget
        for part, batch in pack([tokens.ids for tokens in instances], budget, self.first_position):
            results += zip(instances[part], softmax(self.engine.run(batch.feeds())), strict=True)
        return results

    def encode(self, result: tuple[Tokens, Any]) -> dict[str, object]:
        """The best label, every label's score, and whether the text was longer than the model reads."""
        tokens, scores = result
        labels = self.settings.labels
        best = int(scores.argmax())
        return {
            "label": labels[best],
            "score": float(scores[best]),
            "scores": dict(zip(labels, scores.tolist(), strict=True)),
            "tokens": len(tokens.ids),
            "truncated": tokens.truncated,
        }
