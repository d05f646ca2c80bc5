"""Score a checkpoint as it was saved, as the archive's handler will read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.progress import track

from training.metrics import Int64Array, Scores, confusion
from training.report.calibration import Calibration, softmax
from training.sentiment import LABELS
from training.sentiment.base import load
from training.sentiment.batches import Collator, by_length, encode
from training.sentiment.data import Tweets

TOKENS_PER_BATCH = 4096  # bounds memory, not results

Logits = npt.NDArray[np.float32]


@torch.inference_mode()
def logits_of(folder: Path, tweets: Tweets, console: Console, what: str) -> Logits:
    """Logits float32[N, L] of the files in `folder`, computed in fp32 whatever they are stored in."""
    base = load(str(folder), LABELS)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = base.model.eval().to(device)
    encoded = encode(base.tokenizer, tweets, base.max_tokens)
    collate = Collator(model.config.pad_token_id)
    found = np.zeros((len(tweets), len(LABELS)), np.float32)
    for batch in track(_batches(encoded.lengths), f"score {what}", console=console, transient=True):
        inputs = collate([encoded[index] for index in batch])
        inputs.pop("labels")
        found[batch] = model(**{name: tensor.to(device) for name, tensor in inputs.items()}).logits.cpu().numpy()
    return found


def _batches(lengths: list[int]) -> list[list[int]]:
    order, batches = by_length(lengths), list[list[int]]()
    while order:
        size = max(1, TOKENS_PER_BATCH // lengths[order[0]])
        batches.append(order[:size])
        order = order[size:]
    return batches


def judged(labels: Int64Array, logits: Logits) -> dict[str, Any]:
    """All that is said of a split: scores, the confusion matrix, calibration, and how many tweets."""
    guesses = logits.argmax(axis=1)
    return {
        "tweets": len(labels),
        **scored(labels, guesses),
        "confusion": confusion(labels, guesses, len(LABELS)).tolist(),
        "calibration": Calibration.of(softmax(logits), labels).to_dict(),
    }


def scored(labels: Int64Array, guesses: Int64Array) -> dict[str, Any]:
    """Scores as plain values: macro recall, macro F1, accuracy, and the recall of each class by name."""
    scores = Scores.of(labels, guesses, len(LABELS))
    return {
        "macro_recall": scores.macro_recall,
        "macro_f1": scores.macro_f1,
        "accuracy": scores.accuracy,
        "recall": dict(zip(LABELS, scores.recall, strict=True)),
    }
