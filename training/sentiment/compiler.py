"""torch.compile writes C++ or Triton code at run time: how much, and what it needs for that."""

from __future__ import annotations

import os
import shutil

from training.errors import TrainingError


def compile_blocks() -> None:
    """Have accelerate compile one block of the network for all, at any width: minutes less, for the same code.

    By default it compiles the whole network, once for the first width and again for the others.
    """
    os.environ["ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION"] = "true"
    os.environ["ACCELERATE_DYNAMO_USE_DYNAMIC"] = "true"


def require_compiler() -> None:
    """Raise TrainingError where torch.compile would find no C++ compiler."""
    named = os.environ.get("CXX")
    if not any(shutil.which(name) for name in ([named] if named else ["g++", "clang++", "c++"])):
        raise TrainingError(
            f"torch.compile needs a C++ compiler, and there is no {named or 'g++ or clang++'} here: install one "
            "(apt-get install g++), or train with --no-torch-compile."
        )
