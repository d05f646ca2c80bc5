"""What a test started, and everything that this started."""

import contextlib
import subprocess

import psutil


def alive(one: psutil.Process) -> bool:
    """Who was ended may wait for an indifferent parent."""
    return bool(one.is_running() and one.status() != psutil.STATUS_ZOMBIE)


def descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def kill(process: subprocess.Popen[str]) -> None:
    """A failed test leaves nothing behind."""
    family = descendants(process) if process.poll() is None else []
    process.kill()
    process.wait()
    for one in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
