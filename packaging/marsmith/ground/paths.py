"""What a path is, for paths that a user wrote: one that the system does not take, or may not look at, is nothing."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

NOT_REGULAR = "it is a device, pipe or socket, not a regular file"


def is_file(path: Path) -> bool:
    """Whether it leads to a regular file. Path.is_file lets errors out, of a name that is too long for one."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def leads_out(path: Path, directory: Path) -> bool:
    """Whether it lies elsewhere than below a directory, which is resolved, once links are followed."""
    try:
        return not path.resolve().is_relative_to(directory)
    except (OSError, RuntimeError, ValueError):  # a loop is the second until Python 3.13
        return True


def is_dir(path: Path) -> bool:
    """Whether it leads to a directory."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file to read it, links followed. Raises OSError, for anything else too.

    A pipe that nobody writes to would block, and a device may have no end, so neither is opened to see what it is; and
    what was opened is looked at again, since it may have been replaced.
    """
    require_regular(path.stat(), path)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        require_regular(os.fstat(handle), path)
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def open_regular_or_pipe(path: Path) -> io.BufferedReader:
    """Open a regular file, or a pipe as a shell makes it (`<(…)`, /dev/stdin). Raises OSError."""
    return path.open("rb") if stat.S_ISFIFO(path.stat().st_mode) else open_regular(path)


def require_regular(status: os.stat_result, path: Path) -> None:
    """Raise OSError for what is not a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, NOT_REGULAR, str(path))


def read_regular(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes. Raises OSError."""
    with open_regular(path) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", str(path))
    return content
