"""Write and read .mar archives: the same bytes for the same members, one pass, at its name whole or not at all.

A .mar is a zip file that TorchServe reads as a stream: no data descriptors, so every member's size stands before it.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import yaml

from marsmith.atomic import atomic
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
        with atomic(path) as stream, zipfile.ZipFile(stream, "w") as zip_file:
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


def read_yaml(path: Path, member: str) -> dict[str, Any]:
    """One YAML member of an archive; empty where there is none. Raises ArchiveError."""
    with opened(path) as zip_file:
        value = yaml.safe_load(zip_file.read(member)) if member in zip_file.namelist() else None
    return value if isinstance(value, dict) else {}


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
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error, yaml.YAMLError) as error:
        raise ArchiveError(f"{path} is not a readable archive ({_first_line(error)}): build it again.") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
