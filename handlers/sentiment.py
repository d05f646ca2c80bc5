"""Entry point of a text classification archive: text in, label and scores out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from handlers.base import BatchHandler
from handlers.decoding import text_of
from handlers.engine import Float32Array, open_network, softmax
from handlers.requests import Item
from handlers.text import TextEncoder, Tokens, batches


class SentimentHandler(BatchHandler[Tokens, tuple[Tokens, Any]]):
    """Classifies texts."""

    def load(self) -> None:
        """Open the tokenizer and the network."""
        text = self.settings.text
        if text is None:
            raise ValueError("serving.json has no text section: this archive is not a text classifier's")
        self.text = text
        options = self.settings.options
        self.long_text = options.long_text or text.long_text
        self.encoder = TextEncoder(
            self.model_dir / "tokenizer.json", text.normalise, text.max_tokens, self.long_text, options.max_windows
        )
        self.engine = open_network(self.model_dir, self.threads)

    def decode(self, item: Item) -> Tokens:
        """Text -> token ids, as many as the model reads."""
        return self.encoder.encode(text_of(item, self.settings.options.max_text_bytes))

    def weight(self, instance: Tokens) -> int:
        """A long text costs as much as its windows."""
        return len(instance.windows)

    def predict(self, instances: Sequence[Tokens]) -> list[tuple[Tokens, Any]]:
        """Each instance with its probabilities float32[labels]."""
        windows = [ids for tokens in instances for ids in tokens.windows]
        scores: list[Float32Array] = []
        for _, batch in batches(windows, self.settings.options.token_budget, self.text):
            scores += list(softmax(self.engine.run(batch.feeds())))
        rest = iter(scores)
        return [(tokens, tokens.average(list(islice(rest, len(tokens.windows))))) for tokens in instances]

    def encode(self, result: tuple[Tokens, Any]) -> dict[str, object]:
        """The best label, every label's score, and how much of the text was read."""
        tokens, scores = result
        labels = self.settings.labels
        best = int(scores.argmax())
        answer: dict[str, object] = {
            "label": labels[best],
            "score": float(scores[best]),
            "scores": dict(zip(labels, scores.tolist(), strict=True)),
            "tokens": tokens.count,
            "truncated": tokens.truncated,
        }
        return answer | {"windows": len(tokens.windows)} if self.long_text == "window" else answer
