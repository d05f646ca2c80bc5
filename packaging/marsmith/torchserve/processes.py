"""Processes that never outlive the one that started them, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
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
        return family(self.pid)

    def end(self) -> None:
        """Kill the command and all that it started. Safe to call twice."""
        self._hold.close()
        try:
            self.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # it was stopped by a signal
            kill_session(self)


def family(pid: int) -> list[psutil.Process]:
    """All that a process started and that still runs, in the order in which they were started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def end_java(processes: Iterable[psutil.Process], timeout_s: float) -> None:
    """Ask those that are Java to end, which ends TorchServe's workers with it, and wait for it at most `timeout_s`."""
    java = [one for one in processes if _is_java(one)]
    for one in java:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.terminate()
    psutil.wait_procs(java, timeout=timeout_s)


def _is_java(process: psutil.Process) -> bool:
    try:
        return process.name() == "java"
    except psutil.NoSuchProcess:
        return False


def end_session(process: subprocess.Popen[Any], timeout_s: float) -> None:
    """Ask a process that leads a session, and all in it, to end; what runs on after `timeout_s` is killed."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout_s)
    kill_session(process)


def kill_session(process: subprocess.Popen[Any]) -> None:
    """Kill a process that leads a session, and all that is left in it, and reap it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill processes, in whatever session they are."""
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
