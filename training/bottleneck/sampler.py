"""What the machine does meanwhile: a thread that samples CPU, memory and GPU into `RUN/samples.jsonl`."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any, Self

import psutil
import torch

from training.bottleneck.records import SAMPLES

INTERVAL_S = 1.0
# PyTorch names the processes of a DataLoader so.
LOADER_WORKER = "pt_data_worker"


class Sampler:
    """Samples while the `with` block runs: `with Sampler(run): train()`. One of the ranks of a machine needs it.

    A line holds `at` (seconds since the start), `cores` (use, 0..1, of each core that this process may run on, by
    whatever runs there), `process` (cores' worth of CPU time of this training's processes on this machine), `rss_bytes`
    of them, `workers` (loader processes alive) and, where CUDA is in use, `gpu_bytes` and `gpu_use` (0..1; None without
    NVIDIA's management library).
    """

    def __init__(self, folder: Path, interval_s: float = INTERVAL_S) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / SAMPLES
        self._interval = interval_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        start, before, cpu_before = time.monotonic(), time.monotonic(), _cpu_seconds(_family())
        psutil.cpu_percent(percpu=True)  # what follows is measured from here
        with self._path.open("w", encoding="utf-8", buffering=1) as file:
            while not self._stopped.wait(self._interval):
                now, family = time.monotonic(), _family()
                cpu = _cpu_seconds(family)
                # Children that ended took their time with them.
                used = max(0.0, cpu - cpu_before) / (now - before)
                sample = {"at": round(now - start, 3), "process": round(used, 3), **_memory(family), **_gpu()}
                sample["cores"] = _cores()
                file.write(json.dumps(sample) + "\n")
                before, cpu_before = now, cpu


def _family() -> list[psutil.Process]:
    """The processes of this training: this one, or torchrun with all its ranks, and all their children."""
    root = psutil.Process()
    if int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > 1:
        root = root.parent() or root
    return [root, *root.children(recursive=True)]


def _cpu_seconds(family: list[psutil.Process]) -> float:
    total = 0.0
    for process in family:
        try:
            times = process.cpu_times()
        except psutil.Error:  # it ended meanwhile
            continue
        total += times.user + times.system
    return total


def _cores() -> list[float]:
    allowed = os.sched_getaffinity(0)
    return [round(use / 100, 3) for core, use in enumerate(psutil.cpu_percent(percpu=True)) if core in allowed]


def _memory(family: list[psutil.Process]) -> dict[str, Any]:
    resident, workers = 0, 0
    for process in family:
        try:
            resident += process.memory_info().rss
            workers += process.name() == LOADER_WORKER
        except psutil.Error:
            continue
    return {"rss_bytes": resident, "workers": workers}


def _gpu() -> dict[str, Any]:
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return {}
    try:
        use = torch.cuda.utilization() / 100
    except (ImportError, RuntimeError):
        use = None
    return {"gpu_bytes": torch.cuda.memory_allocated(), "gpu_use": use}
