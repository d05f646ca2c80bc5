"""The formats of torch-model-archiver: an archive, a tar file or a directory, each at its name whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Literal

from marsmith.errors import ArchiveError
from marsmith.ground.files import atomic
from marsmith.mar.members import MANIFEST, Members
from marsmith.mar.writer import CHUNK_BYTES, open_source, write_archive

Format = Literal["default", "zip-store", "tgz", "no-archive"]

ENDINGS: dict[str, str] = {"default": ".mar", "zip-store": ".mar", "tgz": ".tar.gz", "no-archive": ""}
# Weights hardly shrink: the highest levels cost minutes for a few bytes.
GZIP_LEVEL = 6


def check_output(output: Path, archive_format: str, force: bool) -> None:
    """Raise ArchiveError when the output would replace something that it may not."""
    if not os.path.lexists(output):
        return
    if not force:
        raise ArchiveError(f"{output} exists already: replace it with --force, or name another --export-path.")
    if archive_format == "no-archive" and not _is_model_directory(output):
        raise ArchiveError(
            f"{output} is no model directory, which has a {MANIFEST}, so --force does not replace it: move it "
            "away, or name another --export-path."
        )


def _is_model_directory(path: Path) -> bool:
    """Whether nothing but a model is lost with the directory: an empty one holds nothing."""
    if path.is_symlink() or not path.is_dir():
        return False
    return (path / MANIFEST).is_file() or not any(path.iterdir())


def write_format(output: Path, members: Members, archive_format: str, force: bool) -> tuple[int, int]:
    """Write the members in one of the formats. Returns the size in bytes and the number of members.

    Raises ArchiveError and OSError.
    """
    if ENDINGS[archive_format] == ".mar":
        count = len(write_archive(output, members, store=archive_format == "zip-store"))
        return output.stat().st_size, count
    output.parent.mkdir(parents=True, exist_ok=True)
    if archive_format == "tgz":
        _write_tgz(output, members)
        return output.stat().st_size, len(members)
    return _write_directory(output, members, force), len(members)


def _in_order(members: Members) -> list[PurePosixPath]:
    return sorted(members, key=lambda name: (str(name) == MANIFEST, str(name)))


def _write_tgz(output: Path, members: Members) -> None:
    """A tar file with one root directory, which TorchServe strips; no clock, owner or mode gets into it."""
    root = output.name.removesuffix(ENDINGS["tgz"])
    with (
        atomic(output) as stream,
        gzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=stream, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in _in_order(members):
            with open_source(members[name], name) as (reader, size):
                entry = tarfile.TarInfo(f"{root}/{name}")
                entry.size = size
                tar.addfile(entry, reader)


def _write_directory(output: Path, members: Members, force: bool) -> int:
    """A directory that gets its name when it is whole; with `force` it replaces the model that has it then.

    Returns the bytes of its files.
    """
    size = 0
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as scratch:
        tree = Path(scratch, "new")
        for name in _in_order(members):
            file = tree / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with open_source(members[name], name) as (reader, _), file.open("wb") as stream:
                shutil.copyfileobj(reader, stream, CHUNK_BYTES)
                size += stream.tell()
                stream.flush()
                os.fsync(stream.fileno())
        with alone(output.parent):
            check_output(output, "no-archive", force)
            _swap(tree, output, Path(scratch, "old"))
    return size


def _swap(new: Path, output: Path, old: Path) -> None:
    """Give the directory `new` its name; one that had it becomes `old`."""
    try:
        if os.path.lexists(output):
            output.rename(old)
        new.rename(output)
    except BaseException:
        if old.exists() and not os.path.lexists(output):
            old.rename(output)
        raise


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Hold a lock of the directory, so that no other build swaps its output in it meanwhile.

    Between the two renames of a swap the path does not exist.
    """
    handle = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # not every network file system has locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
