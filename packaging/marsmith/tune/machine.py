"""What a figure needs beside it: the machine, and the versions of what ran."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from marsmith.ground.cores import available_cores

PACKAGES = ("marsmith", "torchserve", "onnxruntime", "torch", "tokenizers", "pillow", "numpy")


def machine() -> dict[str, object]:
    """Processor, cores and versions."""
    return {
        "cpu": _processor(),
        "architecture": platform.machine(),
        "cores": available_cores(),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    """The model that /proc/cpuinfo names; Arm's names none."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    pairs = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in pairs if key.strip() == "model name"), platform.machine())


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
