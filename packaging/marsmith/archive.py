"""Write and read .mar archives: the same bytes for the same members, one pass, at its name whole or not at all.

A .mar is a zip file that TorchServe reads as a stream: no data descriptors, so every member's size stands before it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from marsmith.errors import ArchiveError
from marsmith.serving import dump_json

MANIFEST = "MAR-INF/MANIFEST.json"
DIGESTS = "MAR-INF/digests.json"
# The first instant that zip can express: no member carries the clock.
EPOCH = (1980, 1, 1, 0, 0, 0)
MODE = 0o100644 << 16
CHUNK_BYTES = 1 << 20
# Text is deflated; everything else is stored, so that it is copied and mapped at the disk's speed.
DEFLATED_SUFFIXES = frozenset({".py", ".json", ".yaml", ".txt", ".md"})
DEFLATE_LEVEL = 9

Source = bytes | Path


@dataclass(frozen=True, slots=True)
class Member:
    """One member's size in bytes and its sha256 in hexadecimal."""

    size: int
    sha256: str


def write(path: Path, members: Mapping[PurePosixPath, Source]) -> dict[str, Member]:
    """Write an archive of `members` in their sorted order, then MAR-INF/digests.json. Returns what was written.

    The file gets its name when it is whole. Raises ArchiveError.
    """
    written: dict[str, Member] = {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _atomic(path) as stream, zipfile.ZipFile(stream, "w") as zip_file:
            for name in sorted(members, key=str):
                add(zip_file, name, members[name], written)
            digests = {name: {"size": m.size, "sha256": m.sha256} for name, m in sorted(written.items())}
            add(
                zip_file,
                PurePosixPath(DIGESTS),
                dump_json({"algorithm": "sha256", "members": digests}),
                written,
            )
    except OSError as error:
        raise ArchiveError(f"The archive {path} cannot be written: {error.strerror or error}.") from None
    return written


def add(zip_file: zipfile.ZipFile, name: PurePosixPath, source: Source, written: dict[str, Member]) -> None:
    """Copy one member in, hashing on the way. Raises ArchiveError for a name that is taken or leaves the root."""
    if name.is_absolute() or ".." in name.parts or name.name == "":
        raise ArchiveError(f"The member name {name} leaves the archive: give it a relative name without '..'.")
    if str(name) in written:
        raise ArchiveError(f"Two files want to be {name} in the archive: rename one of them.")
    info = zipfile.ZipInfo(str(name), EPOCH)
    info.external_attr = MODE
    info.create_system = 3
    info.file_size = len(source) if isinstance(source, bytes) else source.stat().st_size
    if name.suffix in DEFLATED_SUFFIXES:
        info.compress_type = zipfile.ZIP_DEFLATED
        info._compresslevel = DEFLATE_LEVEL  # type: ignore[attr-defined]
    digest, size = hashlib.sha256(), 0
    with _open(source) as reader, zip_file.open(info, "w") as writer:
        while chunk := reader.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            writer.write(chunk)
    written[str(name)] = Member(size, digest.hexdigest())


def _open(source: Source) -> IO[bytes]:
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


@contextmanager
def _atomic(path: Path) -> Iterator[IO[bytes]]:
    """A stream beside `path` that takes its name on success and disappears on any failure."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def extract(path: Path, out: Path) -> None:
    """Unpack an archive into the directory `out`. Raises ArchiveError."""
    with opened(path) as zip_file:
        zip_file.extractall(out)  # zipfile drops roots and ".."


def read_json(path: Path, member: str) -> dict[str, object]:
    """One JSON member of an archive. Raises ArchiveError."""
    with opened(path) as zip_file:
        value = json.loads(zip_file.read(member))
    if not isinstance(value, dict):
        raise ArchiveError(f"{member} of {path} is no JSON object: the archive was not made for TorchServe.")
    return value


@contextmanager
def opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive as a zip file; what goes wrong with it comes out as ArchiveError."""
    try:
        with zipfile.ZipFile(path) as zip_file:
            yield zip_file
    except FileNotFoundError:
        raise ArchiveError(f"There is no archive {path}. Build it with marsmith build.") from None
    except KeyError as error:
        raise ArchiveError(f"{path} is not a Marsmith archive: {str(error).strip(chr(34))}.") from None
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise ArchiveError(f"{path} is not a readable archive ({error}): build it again.") from None
