"""How far an archive's answers are from the checkpoint's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marsmith.evidence import accuracy as gate
from marsmith.evidence.replay import Outcome
from marsmith.mar.members import ACCURACY


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The share of `inputs` with the checkpoint's label, and the largest difference of a probability."""

    inputs: int
    label_agreement: float
    max_probability_change: float


def accuracy(archive: Path, outcomes: Sequence[Outcome]) -> Accuracy:
    """What the build of an archive, unpacked in a directory, says itself; else what its golden requests say.

    Of those, the share that is answered as expected stands for the share of right labels.
    """
    # What a build that lowers the precision found, on more inputs than the golden requests.
    with contextlib.suppress(OSError, ValueError):
        said = gate.Accuracy.model_validate_json((archive / ACCURACY).read_bytes())
        return Accuracy(said.inputs, said.label_agreement, said.max_probability_change)
    changes = [change for one in outcomes for change in _changes(one.expected, one.prediction.body)]
    right = sum(one.ok for one in outcomes)
    return Accuracy(len(outcomes), right / len(outcomes) if outcomes else 0.0, max(changes, default=0.0))


def _changes(expected: Any, got: Any) -> Iterator[float]:
    """The differences of the numbers that both have."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        for key in expected.keys() & got.keys():
            yield from _changes(expected[key], got[key])
    elif isinstance(expected, list) and isinstance(got, list):
        for before, after in zip(expected, got, strict=False):
            yield from _changes(before, after)
    elif isinstance(expected, float) and isinstance(got, float):
        yield abs(expected - got)
