"""Files that appear at their name whole, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

# What a new file is made with before the umask takes bits away; what nobody else may read while it is written.
NEW_FILE, PRIVATE = 0o666, 0o600
# Of the file's own name, so that the temporary one is not too long where that is as long as can be.
SHOWN_CHARACTERS = 40
TOKEN_BYTES = 8


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
