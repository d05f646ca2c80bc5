"""What a training ran on: a figure without its hardware says nothing."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# What decides the speed of fp32 and bf16 matrix products.
FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "bf16", "i8mm", "sve")
PACKAGES = ("torch", "transformers", "accelerate", "datasets", "tokenizers", "numpy")


def hardware() -> dict[str, object]:
    """Processor, its features that matter, cores that may be used, memory in bytes, and the GPUs that torch sees."""
    import torch

    facts = _cpuinfo()
    flags = set((facts.get("flags") or facts.get("Features") or "").split())
    return {
        "cpu": facts.get("model name") or platform.machine(),
        "architecture": platform.machine(),
        "features": [name for name in FEATURES if name in flags],
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
    }


def load_average() -> float:
    """Processes that ran or waited for a core in the last minute: of a quiet machine near 0."""
    return os.getloadavg()[0]


def versions() -> dict[str, str]:
    """Versions of what trains."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _cpuinfo() -> dict[str, str]:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in reversed(text.splitlines()))
    return {key.strip(): value.strip() for key, _, value in pairs}
