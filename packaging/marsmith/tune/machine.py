"""What the figures of a tuning need beside them: the machine, and the versions of what ran."""

from __future__ import annotations

import platform

from marsmith.ground.cores import available_cores
from marsmith.ground.machine import processor, versions

PACKAGES = ("marsmith", "torchserve", "onnxruntime", "torch", "tokenizers", "pillow", "numpy")


def machine() -> dict[str, object]:
    """Processor, cores and versions."""
    return {
        "cpu": processor().name,
        "architecture": platform.machine(),
        "cores": available_cores(),
        "versions": versions(PACKAGES),
    }
