"""The cores of this machine and each worker's share of them, as handlers/engine.py plans them in the worker."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def available_cores(cgroup: Path = CGROUP) -> int:
    """CPU cores this process may use: its affinity mask, cut by the cgroup's CPU quota (v2, else v1)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroup)
    return cores if quota is None else max(1, min(cores, int(quota)))


def _quota(cgroup: Path) -> float | None:
    """The CPU quota in cores, None where there is none."""
    try:
        limit, period = (cgroup / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            limit = (cgroup / "cpu/cpu.cfs_quota_us").read_text().strip()
            period = (cgroup / "cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return None if limit in {"max", "-1"} else int(limit) / int(period)


def intra_op_threads(cores: int, workers: int) -> int:
    """The thread plan: workers x threads never pass the cores, and every worker has at least one thread."""
    return max(1, cores // max(1, workers))
