"""Golden requests as other homes get them, and how far two answers are apart."""

import json
from pathlib import Path
from typing import Any

from marsmith.evidence import golden
from marsmith.torchserve.worker import Worker, WorkerRequest

# What no text model reads.
PICTURE = (b"\x89PNG\r\n\x1a\n", "image/png")


def golden_payloads(archive: Path) -> list[tuple[bytes, str]]:
    recorded = golden.read(archive)
    assert recorded is not None
    return [request.payload() for request in recorded.requests]


def of_the_archive(archive: Path) -> list[Any]:
    """What the .mar answers to its golden requests, in the real worker."""
    with Worker(archive) as worker:
        answers = worker.predict([WorkerRequest.raw(*one) for one in golden_payloads(archive)])
    return [json.loads(answer.body) for answer in answers]


def difference(one: Any, other: Any) -> float:
    """The largest difference between the numbers of two answers that are alike in all else."""
    if isinstance(one, dict):
        assert list(one) == list(other)
        return max((difference(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list):
        assert len(one) == len(other)
        return max((difference(*pair) for pair in zip(one, other, strict=True)), default=0.0)
    if isinstance(one, float):
        return abs(float(one) - float(other))
    assert one == other
    return 0.0
