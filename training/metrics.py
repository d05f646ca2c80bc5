"""Classification scores from labels and predictions: accuracy, macro recall, macro F1, recall of a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
Labels = Sequence[int] | Int64Array


@dataclass(frozen=True, slots=True)
class Scores:
    """Fractions in 0..1. Macro recall is the measure of SemEval-2017 task 4A and of TweetEval sentiment."""

    accuracy: float
    macro_recall: float
    macro_f1: float
    recall: tuple[float, ...]

    @classmethod
    def of(cls, labels: Labels, predictions: Labels, classes: int) -> Scores:
        """Score N `predictions` against N `labels`, all in 0..`classes` - 1.

        A class that never occurs in `labels` has recall 0; one that neither occurs nor is predicted has F1 0.
        """
        matrix = confusion(labels, predictions, classes)
        hits = matrix.diagonal().astype(np.float64)
        occurring, predicted = matrix.sum(axis=1), matrix.sum(axis=0)
        recall = hits / np.maximum(occurring, 1)
        f1 = 2 * hits / np.maximum(occurring + predicted, 1)
        return cls(
            accuracy=float(hits.sum() / matrix.sum()),
            macro_recall=float(recall.mean()),
            macro_f1=float(f1.mean()),
            recall=tuple(recall.tolist()),
        )


def confusion(labels: Labels, predictions: Labels, classes: int) -> Int64Array:
    """Count pairs, int64[classes, classes]: row = label, column = prediction.

    Raises ValueError when there is nothing to count, the lengths differ, or a value is out of range.
    """
    true, guessed = np.asarray(labels, np.int64), np.asarray(predictions, np.int64)
    if true.shape != guessed.shape or true.size == 0:
        raise ValueError(f"need as many predictions as labels, and at least one: {true.size}, {guessed.size}")
    if min(true.min(), guessed.min()) < 0 or max(true.max(), guessed.max()) >= classes:
        raise ValueError(f"labels and predictions must lie in 0..{classes - 1}")
    return np.bincount(true * classes + guessed, minlength=classes * classes).reshape(classes, classes)


def table(labels: Labels, predictions: Mapping[str, Labels], names: Sequence[str]) -> str:
    """Write scores as Markdown, a row for each list of predictions; `names` are those of the classes."""
    columns = ("", "macro recall", "macro F1", "accuracy", *(f"recall {name}" for name in names))
    lines = [f"| {' | '.join(columns)} |", "|---|" + "---:|" * (len(columns) - 1)]
    for title, guesses in predictions.items():
        scores = Scores.of(labels, guesses, len(names))
        values = (scores.macro_recall, scores.macro_f1, scores.accuracy, *scores.recall)
        lines.append(f"| {title} | {' | '.join(f'{value:.4f}' for value in values)} |")
    return "\n".join(lines)
