"""Marsmith: TorchServe archives that can be trusted.

`build` makes an archive from a recipe, `archive` from files as torch-model-archiver does; both are the commands of the
same names. Every error that a user can put right is a MarsmithError (see `marsmith.errors`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from marsmith.errors import MarsmithError

if TYPE_CHECKING:
    from marsmith.archiver import archive
    from marsmith.builder import build

__all__ = ["MarsmithError", "archive", "build"]

# As in handlers/__init__.py: nothing is reported to ONNX Runtime's maker, here and in the servers started from here.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def __getattr__(name: str) -> Any:
    """Import a public function when it is first asked for: torch takes seconds."""
    if name == "build":
        from marsmith.builder import build

        return build
    if name == "archive":
        from marsmith.archiver import archive

        return archive
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
