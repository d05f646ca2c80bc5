"""What else works on this machine meanwhile: figures that were measured beside it say little."""

from __future__ import annotations

import contextlib
import os
import time

import psutil

# Past this share of the cores a figure is not to be compared with another.
DISTURBING = 0.1


class Others:
    """Counts the cores that processes other than this one and its children keep busy, from its making on."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._before = busy_s() - own_s()

    def cores(self) -> float:
        """The cores, on average until now."""
        passed = time.monotonic() - self._began
        return max(0.0, (busy_s() - own_s() - self._before) / passed) if passed else 0.0


def counted_cores() -> int:
    """How many cores are watched: a CPU quota, which is no core of its own, does not lessen them."""
    return len(_counted())


def _counted() -> set[int]:
    """The cores that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def busy_s() -> float:
    """Seconds of work so far on the counted cores."""
    every = psutil.cpu_times(percpu=True)
    times = [every[number] for number in _counted() if number < len(every)]
    # Virtual machines are in user time too, so `guest` is not added.
    return sum(one.user + one.nice + one.system + one.irq + one.softirq + one.steal for one in times)


def own_s() -> float:
    """Seconds of work so far of this process and its children, ended ones included."""
    seconds = 0.0
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds
