"""Run a command that ends with whoever started it: `python -I -S guard.py DESCRIPTOR DIRECTORY COMMAND…`.

DESCRIPTOR is the read end of a pipe whose other end the starter holds and never writes to: however the starter ends, by
any signal, the pipe ends too. Then everything that the command started is killed, and DIRECTORY, unless it is empty, is
removed. When the command ends by itself, what it left running is killed, and this process ends as the command did.

It runs without site-packages, so that it starts in a moment, and imports nothing of Marsmith.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# Linux's prctl(2): orphans below become children of this process; a child is killed when its parent thread ends.
PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG = 36, 1
# What a shell says of a command that cannot be run.
CANNOT_RUN = 127
# Signals of a terminal are for the starter, which ends this process.
IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


def main() -> None:
    """Run the command, and end as it does."""
    starter, directory, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    os.set_inheritable(starter, False)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    ended, wake = os.pipe()
    for end in (ended, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    try:
        child = subprocess.Popen(command, preexec_fn=_as_child)  # noqa: S603 - nothing else runs here yet
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be run: {error.strerror}\n")
        sys.exit(CANNOT_RUN)
    code = _wait(child, starter, ended)
    _kill_descendants()
    if code is None:
        if directory:
            shutil.rmtree(directory, ignore_errors=True)
        sys.exit(1)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _as_child() -> None:
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _wait(child: "subprocess.Popen[bytes]", starter: int, ended: int) -> int | None:
    """The command's exit code; None once the starter is gone."""
    while True:
        ready, _, _ = select.select([starter, ended], [], [])
        if starter in ready and not os.read(starter, 1):
            return None
        with contextlib.suppress(BlockingIOError):
            os.read(ended, 1024)
        if (code := child.poll()) is not None:
            return code
        _reap(child.pid)


def _reap(child: int) -> None:
    """Take leave of orphans that ended, and of nothing else."""
    for pid, parent in _parents():
        if parent == os.getpid() and pid != child:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _kill_descendants() -> None:
    """Kill until there is none; those whose parent is killed become children of this process."""
    while pids := _descendants(os.getpid()):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _descendants(pid: int) -> list[int]:
    """The processes below one."""
    children: dict[int, list[int]] = {}
    for one, parent in _parents():
        children.setdefault(parent, []).append(one)
    found: list[int] = []
    left = [pid]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def _parents() -> Iterator[tuple[int, int]]:
    """Each process and its parent. What a process is called stands in brackets before (proc(5))."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            yield int(file.parent.name), int(file.read_text(errors="replace").rpartition(")")[2].split()[1])


if __name__ == "__main__":
    main()
