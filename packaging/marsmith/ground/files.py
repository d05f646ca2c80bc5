"""Files that a user names: read where they are regular, decoded as editors leave them, written whole or not at all.

A path that the system does not take, or may not look at, is treated as absent.
"""

from __future__ import annotations

import codecs
import errno
import hashlib
import io
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

NOT_REGULAR = "it is a device, pipe or socket, not a regular file"
# The longer marks first: that of UTF-32 begins as that of UTF-16 does.
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# They are held in memory, twice: ten million tweets have as many.
MAX_LINES_BYTES = 1 << 30
# A comment in one of the first two lines that names the encoding, as PEP 263 has it and pip reads it.
CODING = re.compile(rb"\A(?:[^\n]*\n)?[^\n]*?#[^\n]*?coding[:=]\s*([-\w.]+)")
# What a new file is made with before the umask takes bits away; what nobody else may read while it is written.
NEW_FILE, PRIVATE = 0o666, 0o600
# Of the file's own name, so that the temporary one is not too long where that is as long as can be.
SHOWN_CHARACTERS = 40
TOKEN_BYTES = 8


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


class NotUtf8(ValueError):
    """Why bytes are not UTF-8 text, in a phrase."""


def decoded(data: bytes) -> str:
    """UTF-8 text without its byte order mark. Raises NotUtf8."""
    for mark, name in MARKS[1:]:
        if data.startswith(mark):
            raise NotUtf8(f"it is {name[:6].upper()} text: save it as UTF-8")
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotUtf8(f"it is not UTF-8 text (byte {error.start:,}): save it as UTF-8") from None


def requirements_text(data: bytes) -> str | None:
    """A requirements file as pip decodes it: by its mark, else by the encoding that a comment names; else as UTF-8.

    None for bytes that are not text in that encoding.
    """
    try:
        for mark, name in MARKS:
            if data.startswith(mark):
                return data.removeprefix(mark).decode(name)
        coding = CODING.match(data)
        return data.decode(coding[1].decode("ascii") if coding else "utf-8")
    except (UnicodeDecodeError, LookupError):
        return None


def lines_of(text: str) -> list[str]:
    """The lines of a text. A line ends with a newline, or with a carriage return and a newline, alone.

    str.splitlines would also split at separators that occur in tweets, and so would a file that is read as text.
    """
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def read_lines(file: Path, *, pipe_too: bool = False) -> list[str]:
    """The lines of a file, in UTF-8 with a byte order mark or not. Raises OSError and NotUtf8.

    `pipe_too`: it may also be a pipe, where the user names it whose shell fills it.
    """
    with open_regular_or_pipe(file) if pipe_too else open_regular(file) as stream:
        text = stream.read(MAX_LINES_BYTES + 1)
    if len(text) > MAX_LINES_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MAX_LINES_BYTES:,} bytes: split it", str(file))
    return lines_of(decoded(text))


def file_sha256(path: Path) -> str:
    """The sha256 of a regular file in hexadecimal. Raises OSError."""
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def atomic(path: Path, mode: int | None = None) -> Iterator[IO[bytes]]:
    """A stream beside `path` that takes its name on success and disappears on any failure; its `name` is where it lies.

    Its permissions are `mode`, else those of any new file. What is no regular file (a pipe, /dev/stdout) is written to
    as it is. Raises OSError.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    name = path.with_name(f".{path.name[:SHOWN_CHARACTERS]}.{secrets.token_hex(TOKEN_BYTES)}")
    # The system applies the umask. To ask for it means to change it for a moment, for all threads.
    name.touch(NEW_FILE if mode is None else PRIVATE, exist_ok=False)
    try:
        with name.open("r+b") as stream:
            yield stream
            stream.flush()
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        name.replace(path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
