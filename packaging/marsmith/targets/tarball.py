"""Tar archives with the same bytes for the same members: sorted, of nobody, at one instant."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from marsmith.errors import ArchiveError
from marsmith.ground.files import atomic
from marsmith.mar.members import Members
from marsmith.mar.writer import open_source

# The first of January 1980 in seconds, as in a .mar; some readers complain about 1970.
INSTANT_S = 315_532_800
MODE = 0o644
# Weights hardly shrink at any level, and the higher ones take minutes to find that out.
GZIP_LEVEL = 1


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A stream that becomes the file `path` when all went well. Raises ArchiveError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as stream:
            yield stream
    except OSError as error:
        raise ArchiveError(f"{path} cannot be written: {error.strerror or error}.") from None


def write_tar(stream: IO[bytes], members: Members) -> None:
    """Write a tar archive of `members`. Raises ArchiveError for a source that cannot be read, and OSError."""
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(members, key=str):
            with open_source(members[name], name) as (reader, size):
                info = tarfile.TarInfo(str(name))
                info.size, info.mode, info.mtime = size, MODE, INSTANT_S
                tar.addfile(info, reader)


def write_tar_gz(path: Path, members: Members) -> None:
    """Write `members` as the gzipped tar archive `path`: gzip's header has neither name nor time.

    Raises ArchiveError.
    """
    with (
        whole(path) as stream,
        gzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=stream, mtime=0) as packed,
    ):
        write_tar(cast(IO[bytes], packed), members)
