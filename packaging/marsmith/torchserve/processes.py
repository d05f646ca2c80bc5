"""Processes that never outlive the one that started them, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

GUARD = Path(__file__).with_name("guard.py")
END_TIMEOUT_S = 10


class Guarded(subprocess.Popen[Any]):
    """A command in a session of its own, below a guard (guard.py) that ends with this process, by any signal too.

    When that happens the guard kills all that the command started, and removes the directory `remove`. The exit code is
    the command's.
    """

    def __init__(self, command: Sequence[str], *, remove: Path | None = None, **options: Any) -> None:
        theirs, ours = os.pipe()
        # Python lets no child inherit it, so it is closed where this process ends.
        self._hold = os.fdopen(ours, "wb", buffering=0)
        guard = [sys.executable, "-I", "-S", str(GUARD), str(theirs), str(remove or "")]
        try:
            super().__init__([*guard, *command], start_new_session=True, pass_fds=(theirs,), **options)
        finally:
            os.close(theirs)

    def family(self) -> list[psutil.Process]:
        """The command and all that it started, the command first."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.pid).children(recursive=True)
        return []

    def end(self) -> None:
        """Kill the command and all that it started. Safe to call twice."""
        self._hold.close()
        try:
            self.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # it was stopped by a signal
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.wait()
