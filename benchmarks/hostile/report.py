"""A run's tallies as a table, as JSON and as a plot."""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.hostile.drive import DEATH, HANG, LEAK, Sample, Tally
from benchmarks.hostile.judge import HARMED, INVALID, STATUS

FAULTS = {
    DEATH: "deaths",
    HANG: "hangs",
    HARMED: "harmed neighbours",
    STATUS: "wrong statuses",
    INVALID: "invalid answers",
    LEAK: "content in the log",
}
MB = 1_000_000
WARM_SHARE = 0.1
DISTRIBUTIONS = ("marsmith", "torchserve", "onnxruntime", "tokenizers", "pillow", "numpy")
PLOT_INCHES = (9, 4.5)
DPI = 110


class PlotError(Exception):
    """No plot can be drawn."""


def table(tallies: Sequence[Tally]) -> Table:
    """A column for each model."""
    shown = Table("", *(tally.task for tally in tallies), title=f"Hostile requests, seed {tallies[0].seed}")
    for name in rows(tallies[0]):
        shown.add_row(name, *(rows(tally)[name] for tally in tallies))
    return shown


def rows(tally: Tally) -> dict[str, str]:
    """What is told of one model, by the row's name."""
    memory = memory_of(tally)
    return {
        "requests (good ones)": f"{tally.requests:,} ({tally.good:,})",
        "batches": f"{tally.batches:,}",
        **{name: str(tally.faults[kind]) for kind, name in FAULTS.items()},
        **{f"status {status}": f"{tally.statuses[status]:,}" for status in (200, 400, 413, 415, 422, 500, 503)},
        "requests/s": f"{tally.requests / tally.seconds:.0f}" if tally.seconds else "",
        "slowest batch": f"{tally.slowest_s:.1f} s",
        **tally.pace.rows(),
        **{f"memory: {name}": f"{sample.rss / MB:.0f} MB" for name, sample in memory.items()},
    }


def memory_of(tally: Tally) -> dict[str, Sample]:
    """The worker's resident memory at the beginning, after a tenth, at the end, and at most."""
    samples = tally.memory
    warm = next(s for s in samples if s.requests >= WARM_SHARE * tally.requests)
    return {"start": samples[0], "10 %": warm, "end": samples[-1], "most": max(samples, key=lambda s: s.rss)}


def summary(tallies: Iterable[Tally]) -> dict[str, Any]:
    """Everything, for a machine to read."""
    return {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()},
        "versions": {name: version(name) for name in DISTRIBUTIONS},
        "models": {
            tally.task: {
                **{key: value for key, value in dataclasses.asdict(tally).items() if key not in {"memory", "pace"}},
                "pace": tally.pace.summary(),
                "faults": {kind: tally.faults[kind] for kind in FAULTS},
                "statuses": {str(status): count for status, count in sorted(tally.statuses.items())},
                "kinds": dict(sorted(tally.kinds.items())),
                "memory_bytes": {name: dataclasses.asdict(sample) for name, sample in memory_of(tally).items()},
                "memory_curve": [[s.requests, s.rss, s.pss, s.worker] for s in tally.memory],
            }
            for tally in tallies
        },
    }


def require_matplotlib() -> None:
    """Raise PlotError where a plot cannot be drawn, before hours are spent on what it would show."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise PlotError("A plot needs matplotlib: pip install 'marsmith[bench]', or leave --plot out.") from None


def plot(tallies: Sequence[Tally], file: Path) -> None:
    """Write the workers' memory over requests as a PNG."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=PLOT_INCHES, dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    for tally in tallies:
        requests = [sample.requests for sample in tally.memory]
        axes.plot(requests, [sample.rss / MB for sample in tally.memory], label=f"{tally.task}, resident")
        axes.plot(requests, [sample.pss / MB for sample in tally.memory], label=f"{tally.task}, proportional", lw=0.8)
    axes.set(xlabel="requests", ylabel="memory of the worker, MB", ylim=(0, None), xlim=(0, None))
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Software": f"Python {sys.version_info.major}"})
