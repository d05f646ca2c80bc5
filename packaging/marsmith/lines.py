"""The lines of a text file."""

from __future__ import annotations

from pathlib import Path


def read_lines(file: Path) -> list[str]:
    """UTF-8, with a byte order mark or not. Raises OSError and UnicodeDecodeError.

    A line ends with a newline alone: str.splitlines would also split at separators that occur in tweets.
    """
    return file.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
