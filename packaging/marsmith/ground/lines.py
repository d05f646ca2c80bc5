"""Text files as users' editors leave them: byte order marks, line ends, encodings."""

from __future__ import annotations

import codecs
import errno
import re
from pathlib import Path

from marsmith.ground.paths import open_regular, open_regular_or_pipe

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
