"""What a figure needs beside it: the hardware, and the versions of what ran."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path

from marsmith.ground.machine import processor

GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
# What decides the speed of int8 and bf16.
FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm", "bf16")
PACKAGES = ("torch", "torchvision", "transformers", "onnxruntime", "tokenizers", "pillow", "numpy")
SERVERS = ("marsmith", "torchserve", "torch-model-archiver", "litserve", "mlserver", "mlserver-huggingface")
VERSIONS = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
found = {"python": sys.version.split()[0]}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def hardware() -> dict[str, object]:
    """Processor, its features that matter, cores, memory in bytes, clock governor, and how busy the machine is."""
    cpu = processor()
    return {
        "cpu": cpu.name,
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "features": [name for name in FEATURES if name in cpu.features],
        "kernel": platform.release(),
        "governor": _governor(),
        "load_average": {"start": load_average()},
    }


def load_average() -> float:
    """Processes that ran or waited for a core in the last minute: of a quiet machine near 0."""
    return os.getloadavg()[0]


def versions(python: Path) -> dict[str, str]:
    """The versions that an interpreter would import."""
    command = [str(python), "-c", VERSIONS, *PACKAGES, *SERVERS]
    result = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    found: dict[str, str] = json.loads(result.stdout)
    return found


def _governor() -> str:
    """How the kernel sets the clock; virtual machines do not say."""
    try:
        return GOVERNOR.read_text(encoding="utf-8").strip()
    except OSError:
        return "unknown"
