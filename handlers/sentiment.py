"""Entry point of a text classification archive: text in, label and scores out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from handlers.arrays import Float32Array
from handlers.attributions import Window, affordable_runs, attributions
from handlers.base import BatchHandler
from handlers.batching import run_in_batches
from handlers.decoding import text_of
from handlers.engine import softmax
from handlers.errors import NotSupported
from handlers.explain import most_parts
from handlers.metrics import TOKENISE, TOKENS, TRUNCATED
from handlers.requests import Item
from handlers.settings import SettingsError
from handlers.text import TextEncoder, Tokens


class SentimentHandler(BatchHandler[Tokens, tuple[Tokens, Any]]):
    """Classifies texts."""

    def load(self) -> None:
        """Open the tokenizer and the network."""
        text = self.settings.text
        if text is None:
            raise SettingsError("serving.json has no text section: this archive is not a text classifier's")
        self.text = text
        options = self.settings.options
        self.long_text = options.long_text or text.long_text
        self.encoder = TextEncoder.of(self.model_dir, text, self.long_text, options.max_windows)
        self.engine = self.open_network()

    def decode(self, item: Item) -> Tokens:
        """Text -> token ids, as many as the model reads."""
        with self.metrics.stage(TOKENISE):
            tokens = self.encoder.encode(text_of(item, self.settings.options.max_text_bytes), item.work)
        self.metrics.add(TOKENS, tokens.count)
        if tokens.truncated:
            self.metrics.add(TRUNCATED)
        return tokens

    def weight(self, instance: Tokens) -> int:
        """A long text costs as much as its windows."""
        return len(instance.windows)

    def predict(self, instances: Sequence[Tokens]) -> list[tuple[Tokens, Any]]:
        """Each instance with its probabilities float32[labels]."""
        windows = [ids for tokens in instances for ids in tokens.windows]
        scores = iter(softmax(np.stack(self.logits(windows))))
        return [(tokens, tokens.average(list(islice(scores, len(tokens.windows))))) for tokens in instances]

    def logits(self, windows: Sequence[Sequence[int]]) -> list[Float32Array]:
        """Token ids of each window -> its logits float32[labels], in batches under the token budget."""
        return run_in_batches(self.engine.run, windows, self.settings.options.token_budget, self.text)

    def explain(self, instance: Tokens) -> dict[str, object]:
        """The answer of /predictions, and what each token adds to the logits."""
        if self.text.mask_token is None:
            raise NotSupported("This model's tokenizer has no token that stands for a missing one.")
        runs = affordable_runs(self.settings.options.explain_runs, sum(map(len, instance.windows)))
        parts = self.encoder.parts(instance, most_parts(runs // len(instance.windows)))
        windows = [Window(ids, some) for ids, some in zip(instance.windows, parts, strict=True)]
        return {
            "prediction": self.encode(self.predict([instance])[0]),
            "explanation": attributions(
                windows, self.settings.label, self.text.mask_token, self.logits, runs, self.check_time
            ),
        }

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
