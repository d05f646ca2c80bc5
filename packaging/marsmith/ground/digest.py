"""Digests of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from marsmith.ground.paths import open_regular


def file_sha256(path: Path) -> str:
    """The sha256 of a regular file in hexadecimal. Raises OSError."""
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
