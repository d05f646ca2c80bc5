"""What each token of a text adds to the logits, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from handlers.arrays import Float32Array
from handlers.explain import METHOD, BoolArray, Network, explain_each
from handlers.text import Part

# Of many labels, those with the largest logits.
MAX_LABELS = 5
# Longer texts get fewer runs, so that no explanation costs much more than another.
ORDINARY_TOKENS = 64


def affordable_runs(runs: int, tokens: int) -> int:
    """How many of `runs` runs of the network a text of so many tokens gets."""
    return runs if tokens <= ORDINARY_TOKENS else runs * ORDINARY_TOKENS // tokens


@dataclass(frozen=True, slots=True)
class Window:
    """Token ids as the network reads them, and the parts of the text that they stand for."""

    ids: Sequence[int]
    parts: Sequence[Part]

    def without(self, masks: BoolArray, mask_token: int) -> list[list[int]]:
        """The ids for each row of bool[N, parts], with `mask_token` in place of every token of a part left out."""
        owners = np.full(len(self.ids), -1)
        for number, part in enumerate(self.parts):
            owners[part.tokens] = number
        kept = np.hstack([masks, np.ones((len(masks), 1), dtype=bool)])[:, owners]
        ids: list[list[int]] = np.where(kept, np.asarray(self.ids, np.int64), mask_token).tolist()
        return ids


def attributions(
    windows: Sequence[Window],
    label: Callable[[int], str],
    mask_token: int,
    logits: Callable[[Sequence[Sequence[int]]], Sequence[Float32Array]],
    runs: int,
    check_time: Callable[[], None],
) -> dict[str, Any]:
    """Explain a text's logits by the tokens of its windows, with about `runs` runs of the network (see `explain`).

    Of several windows the mean of the logits is explained, weighted by their tokens. For each label, the tokens'
    attributions add up to its logit less its baseline logit, that of a text of masks alone.
    """

    def network(window: Window) -> Network:
        return lambda masks: np.stack(logits(window.without(masks, mask_token)))

    inputs = [(network(window), len(window.parts)) for window in windows]
    explanations = explain_each(inputs, runs, check_time)
    lengths = [sum(part.tokens.stop - part.tokens.start for part in window.parts) for window in windows]
    weights = np.divide(lengths, sum(lengths)) if sum(lengths) else np.ones(1)
    total = sum(weight * one.logits for weight, one in zip(weights, explanations, strict=True))
    baseline = sum(weight * one.baseline for weight, one in zip(weights, explanations, strict=True))
    shares = np.concatenate([weight * one.shares for weight, one in zip(weights, explanations, strict=True)])
    best = np.argsort(-total)[:MAX_LABELS]
    names = [label(index) for index in best]

    def named(values: Any) -> dict[str, float]:
        return dict(zip(names, values[best].tolist(), strict=True))

    texts = [part.text for window in windows for part in window.parts]
    return {
        "method": METHOD,
        "runs": sum(one.runs for one in explanations),
        "logits": named(total),
        "baseline_logits": named(baseline),
        "tokens": [{"text": text, "attributions": named(row)} for text, row in zip(texts, shares, strict=True)],
    }
