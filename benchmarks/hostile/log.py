"""Read a worker's log as it grows, and look for what users sent."""

from __future__ import annotations

import base64
from pathlib import Path

from benchmarks.hostile.case import MARK


def spellings(mark: str) -> tuple[bytes, ...]:
    """The mark as a log may hold it: as text, as UTF-16, and in base64, whose letters depend on where it begins."""
    inner = [base64.b64encode(b"x" * shift + mark.encode())[4 if shift else 0 :][:8] for shift in range(3)]
    return (mark.encode(), mark.encode("utf-16-le"), mark.encode("utf-16-be"), *inner)


class Log:
    """The log at `path`; `leaks` looks at what is new in it."""

    def __init__(self, path: Path, mark: str = MARK) -> None:
        self._path = path
        self._spellings = spellings(mark)
        self._longest = max(map(len, self._spellings))
        self._read = 0
        self._tail = b""

    def leaks(self) -> bool:
        """Whether anything of a request was written since the last look."""
        with self._path.open("rb") as stream:
            stream.seek(self._read)
            new = stream.read()
        self._read += len(new)
        seen = self._tail + new
        self._tail = seen[-(self._longest - 1) :]
        return any(spelling in seen for spelling in self._spellings)
