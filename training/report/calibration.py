"""How far a classifier's probabilities can be believed."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

BINS = 15


@dataclass(frozen=True, slots=True)
class Calibration:
    """Answers in bins of equal width by their confidence: how many, their mean confidence, and the share that is right.

    Bins without answers are left out. `ece` is the expected calibration error of the likeliest label, the gap between
    confidence and accuracy weighted by answers (Guo et al., ICML 2017), 0..1.
    """

    counts: tuple[int, ...]
    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]
    ece: float

    @classmethod
    def of(cls, probabilities: npt.NDArray[np.float64], labels: npt.NDArray[np.int64], bins: int = BINS) -> Calibration:
        """Judge probabilities [N, L] by labels [N]. Raises ValueError when there are none."""
        if len(labels) == 0 or len(labels) != len(probabilities):
            raise ValueError(f"need as many labels as probabilities, and at least one: {len(labels)}")
        confidence = probabilities.max(axis=1)
        right = probabilities.argmax(axis=1) == labels
        # Bins are (low, high]: full confidence is in the last.
        place = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
        counts = np.bincount(place, minlength=bins)
        used = counts > 0
        mean = np.bincount(place, confidence, bins)[used] / counts[used]
        share = np.bincount(place, right, bins)[used] / counts[used]
        ece = float((counts[used] / len(labels)) @ np.abs(mean - share))
        return cls(tuple(counts[used].tolist()), tuple(mean.tolist()), tuple(share.tolist()), ece)

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return asdict(self)


def softmax(logits: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Probabilities [N, L] of logits [N, L]."""
    raised = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = raised / raised.sum(axis=1, keepdims=True)
    return probabilities
