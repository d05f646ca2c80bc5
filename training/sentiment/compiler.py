"""torch.compile writes C++ or Triton code at run time: say beforehand what it lacks."""

from __future__ import annotations

import os
import shutil

from training.errors import TrainingError


def require_compiler() -> None:
    """Raise TrainingError where torch.compile would find no C++ compiler."""
    named = os.environ.get("CXX")
    if not any(shutil.which(name) for name in ([named] if named else ["g++", "clang++", "c++"])):
        raise TrainingError(
            f"torch.compile needs a C++ compiler, and there is no {named or 'g++ or clang++'} here: install one "
            "(apt-get install g++), or train with --no-torch-compile."
        )
