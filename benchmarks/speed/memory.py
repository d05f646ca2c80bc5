"""What a server's processes hold in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: `pss` counts a shared page once among all who share it, `uss` only pages of a process's own."""

    pss: int
    uss: int

    def __sub__(self, other: Memory) -> Memory:
        return Memory(self.pss - other.pss, self.uss - other.uss)


def memory(processes: Iterable[psutil.Process]) -> Memory:
    """The sum over Python's processes. Java's, which TorchServe has once, does not grow with the workers."""
    pss = uss = 0
    for process in processes:
        # One that ended meanwhile holds nothing.
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() != "java":
                info = process.memory_full_info()
                pss, uss = pss + info.pss, uss + info.uss
    return Memory(pss, uss)
