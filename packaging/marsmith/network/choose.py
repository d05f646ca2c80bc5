"""The network of an archive: a form of the checkpoint's that one of the engines runs, with proof that it answers alike.

ONNX Runtime comes first. What ONNX cannot hold, or answers otherwise there, falls back to PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marsmith.errors import ExportError
from marsmith.ground.progress import Progress
from marsmith.ground.serving import Engine
from marsmith.network.export import GRAPH, session
from marsmith.network.program import PROGRAM, WEIGHTS, Run, player
from marsmith.network.reference import Case, Reference

# fp32 arithmetic in another order; a wrong mask, position or activation is off by 1e-2 and more.
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Network:
    """What was written: the names of its files, and the largest difference of its logits from the checkpoint's.

    `note` says why it is not the first engine that runs it, where that is so.
    """

    engine: Engine
    files: tuple[str, ...]
    parity: float
    note: str = ""


def write_network(reference: Reference, out: Path, progress: Progress) -> Network:
    """Write the network into the directory `out`. Raises ExportError when no engine answers as the checkpoint does."""
    try:
        reference.export(out)
        progress("comparing with the checkpoint")
        return Network("ONNX Runtime", (GRAPH, WEIGHTS), check_parity(session(out / GRAPH), reference.cases()))
    except ExportError as error:
        fault = str(error)
    note = f"{fault} It runs in PyTorch instead."
    progress(note)
    try:
        reference.record(out)
        parity = check_parity(player(out / PROGRAM), reference.cases())
    except ExportError as error:
        raise ExportError(
            f"The network can be served neither by ONNX Runtime ({fault.rstrip('.')}) nor by PyTorch "
            f"({str(error).rstrip('.')}): choose another checkpoint, or other versions of torch and transformers."
        ) from None
    return Network("PyTorch", (PROGRAM, WEIGHTS), parity, note)


def check_parity(run: Run, cases: Iterable[Case]) -> float:
    """The largest difference between the logits of `run` and the expected ones.

    Raises ExportError past TOLERANCE, and where either has a logit that is not finite.
    """
    worst = 0.0
    for feeds, expected in cases:
        logits = run(feeds)
        if not np.isfinite(expected).all():
            raise ExportError("The checkpoint's own logits are not finite: its weights are damaged, or overflow.")
        if not np.isfinite(logits).all():
            raise ExportError("Its logits are not finite, and the checkpoint's are.")
        difference = float(np.abs(logits - expected).max()) if logits.shape == expected.shape else float("inf")
        worst = max(worst, difference)
    if worst > TOLERANCE:
        raise ExportError(f"Its logits differ from the checkpoint's by {worst:.2g} (allowed {TOLERANCE:.0e}).")
    return worst
