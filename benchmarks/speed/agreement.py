"""Whether the answers of a server are the checkpoint's: a faster wrong answer is a failure of the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# Where the checkpoint's two best labels are closer than this, their order is left open: photos may be decoded at a
# smaller scale, and weights may be int8.
CLOSE_SCORES = 0.1
LEAST_AGREEMENT = 0.99


@dataclass(frozen=True, slots=True)
class Answer:
    """The best label, and scores by label where a server gives any."""

    label: str
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many answers were compared, the share with the checkpoint's label, and how far the scores are at most."""

    compared: int
    share: float
    worst_score: float | None

    @property
    def ok(self) -> bool:
        """Whether enough answers are right, and there are any."""
        return self.compared > 0 and self.share >= LEAST_AGREEMENT


def agreement(expected: Sequence[Answer], answers: Iterable[tuple[int, Answer]]) -> Agreement:
    """Compare `answers`, each with the index of its input, with the checkpoint's own."""
    compared = right = 0
    worst: float | None = None
    for index, answer in answers:
        reference = expected[index]
        for label, score in answer.scores.items():
            # A server may leave out unlikely labels, and so may the reference.
            if label in reference.scores:
                worst = max(worst or 0.0, abs(score - reference.scores[label]))
        if is_close(reference):
            continue
        compared += 1
        right += answer.label == reference.label
    return Agreement(compared, right / compared if compared else 0.0, worst)


def is_close(reference: Answer) -> bool:
    """Whether the checkpoint itself hardly prefers its label."""
    best = sorted(reference.scores.values(), reverse=True)[:2]
    return len(best) == 2 and best[0] - best[1] < CLOSE_SCORES
