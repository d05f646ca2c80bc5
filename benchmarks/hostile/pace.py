"""How long batches take and what they cost, with slow requests in them and without: neighbours must not wait for them.

The bound is of processor time, so that it holds on a busy machine; the neighbours' own seconds are reported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

import psutil

from benchmarks.hostile.case import GOOD, Case

# What one request may cost (the README), what all others of a batch may cost together, and the same of memory.
SLOW_S, USUAL_S = 2.0, 6.0
SLOW_MB = 500
MB, KB = 1_000_000, 1024
# Resets the peak of a process's memory (proc(5)).
RESET_PEAK = "5"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a batch cost its worker: processor seconds, and megabytes above what it held before."""

    seconds: float
    grown_mb: float


class Watch:
    """Begins to watch a process; `read` says what it cost since."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text(RESET_PEAK, encoding="ascii")
        self._begin = self._seconds()
        self._held = self._peak()

    def read(self) -> Cost:
        """What the process cost; nothing where it has ended."""
        return Cost(max(0.0, self._seconds() - self._begin), max(0.0, (self._peak() - self._held) / MB))

    def _seconds(self) -> float:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = psutil.Process(self._pid).cpu_times()
            return float(times.user + times.system)
        return 0.0

    def _peak(self) -> int:
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{self._pid}/status").read_text(encoding="ascii").splitlines()
            return KB * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
        return 0


@dataclass(slots=True)
class Pace:
    """Seconds that good requests waited for their batch, with a slow one in it and without, and the dearest of those.

    `dearest_s` and `largest_mb` are of batches with one slow request, and the others' work is in them.
    """

    beside_slow_s: list[float] = field(default_factory=list)
    beside_usual_s: list[float] = field(default_factory=list)
    slow: int = 0
    dearest_s: float = 0.0
    dearest_kind: str = ""
    largest_mb: float = 0.0
    largest_kind: str = ""

    def add(self, cases: Sequence[Case], seconds: float, cost: Cost) -> str:
        """Take note of a batch; what is too slow about it, empty where nothing is."""
        slow = [case for case in cases if case.slow]
        self.slow += len(slow)
        waited = self.beside_slow_s if slow else self.beside_usual_s
        waited += [seconds] * sum(case.kind == GOOD for case in cases)
        if len(slow) == 1 and cost.seconds > self.dearest_s:
            self.dearest_s, self.dearest_kind = cost.seconds, slow[0].kind
        if len(slow) == 1 and cost.grown_mb > self.largest_mb:
            self.largest_mb, self.largest_kind = cost.grown_mb, slow[0].kind
        most = SLOW_S * len(slow) + USUAL_S
        return f"its batch took {cost.seconds:.1f} s of a core, not {most:.1f}" if cost.seconds > most else ""

    def rows(self) -> dict[str, str]:
        """What is told of it, by the row's name."""
        return {
            "slow requests": f"{self.slow:,}",
            "neighbours' p50 / p99": _waits(self.beside_usual_s),
            "beside a slow request": _waits(self.beside_slow_s),
            "dearest slow request, with its batch": f"{self.dearest_s:.1f} s of a core ({self.dearest_kind})",
            "largest slow request, with its batch": f"{self.largest_mb:.0f} MB ({self.largest_kind})",
        }

    def summary(self) -> dict[str, object]:
        """The same for a machine to read."""
        return {
            "slow_requests": self.slow,
            "neighbours_s": _percentiles(self.beside_usual_s),
            "neighbours_beside_slow_s": _percentiles(self.beside_slow_s),
            "dearest": {"cpu_s": self.dearest_s, "kind": self.dearest_kind},
            "largest": {"grown_mb": self.largest_mb, "kind": self.largest_kind},
        }


def _percentiles(waits: Sequence[float]) -> dict[str, float]:
    if len(waits) < 2:
        return dict.fromkeys(("p50", "p99"), waits[0] if waits else 0.0)
    cuts = quantiles(waits, n=100, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98]}


def _waits(waits: Sequence[float]) -> str:
    found = _percentiles(waits)
    return f"{1000 * found['p50']:.0f} / {1000 * found['p99']:.0f} ms"
