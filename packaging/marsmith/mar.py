"""Write and read .mar archives: the same bytes for the same members, one pass, at its name whole or not at all.

A .mar is a zip file that TorchServe reads as a stream: no data descriptors, so every member's size stands before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import yaml

from marsmith import layout
from marsmith.atomic import atomic
from marsmith.digest import file_sha256
from marsmith.errors import ArchiveError
from marsmith.layout import Entry
from marsmith.serving import dump_json

MANIFEST = "MAR-INF/MANIFEST.json"
DIGESTS = "MAR-INF/digests.json"
SIGNATURE = "MAR-INF/signature.json"
GOLDEN = "MAR-INF/golden.json"
SBOM = "MAR-INF/sbom.cdx.json"
PROVENANCE = "MAR-INF/provenance.json"
# They seal the rest, so they stand last and stored: one bit of them more or less shows in their CRC.
SEALS = (DIGESTS, SIGNATURE)
CHUNK_BYTES = 4 << 20
# Chunks that wait for the hash while the next are copied.
HASH_LAG = 4
# The disk is asked to take what was written each time this much was, while the rest is still being hashed.
FLUSH_BYTES = 32 << 20
# Text is deflated; everything else is stored, so that it is copied and mapped at the disk's speed.
DEFLATED_SUFFIXES = frozenset({".py", ".json", ".yaml", ".yml", ".txt", ".md"})
# Past this a deflated member could outgrow the 32-bit sizes that its header is written with.
MAX_DEFLATED_BYTES = 1 << 30
DEFLATE_LEVEL = 9
RAW_DEFLATE = -15

Source = bytes | Path
Members = Mapping[PurePosixPath, Source]


@dataclass(frozen=True, slots=True)
class Member:
    """One member's size in bytes and its sha256 in hexadecimal.

    `deflated` is the sha256 of the member as it lies in the archive, where that is not its content: two deflate
    streams may hold one content.
    """

    size: int
    sha256: str
    deflated: str | None = None


def write(
    path: Path, members: Members, check: Callable[[Path], None] | None = None, *, store: bool = False
) -> dict[str, Member]:
    """Write an archive of `members` in their sorted order, then MAR-INF/digests.json. Returns what was written.

    The file gets its name when it is whole and `check`, which may read it where it lies, raised nothing; `store` leaves
    text undeflated. Raises ArchiveError.
    """
    written: dict[str, Member] = {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as stream, Writer(stream, store=store) as writer:
            for name in sorted(members, key=str):
                written[str(name)] = writer.add(name, members[name])
            written[DIGESTS] = writer.add(PurePosixPath(DIGESTS), digests(written))
            writer.close()
            if check is not None:
                stream.flush()
                check(Path(stream.name))
    except OSError as error:
        raise ArchiveError(f"The archive {path} cannot be written: {error.strerror or error}.") from None
    return written


def digests(written: Mapping[str, Member]) -> bytes:
    """MAR-INF/digests.json: every other member's size and digests."""
    return dump_json({"algorithm": "sha256", "members": {name: digest(written[name]) for name in sorted(written)}})


def digest(member: Member) -> dict[str, object]:
    """One member's entry in digests.json."""
    deflated = {"deflated": member.deflated} if member.deflated else {}
    return {"size": member.size, "sha256": member.sha256, **deflated}


def source_sha256(source: Source) -> str:
    """The sha256 of what a member will hold, in hexadecimal."""
    return hashlib.sha256(source).hexdigest() if isinstance(source, bytes) else file_sha256(source)


class Writer:
    """Writes members one after the other into a seekable stream; `close` adds the central directory."""

    def __init__(self, stream: IO[bytes], entries: list[Entry] | None = None, *, store: bool = False) -> None:
        self._stream = stream
        self._entries = entries or []
        self._names = {entry.name for entry in self._entries}
        self._store = store
        # hashlib lets go of the interpreter: the second core hashes while the first one copies, and the disk flushes.
        self._hasher, self._flusher = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._flushes: list[Future[None]] = []
        self._unflushed = 0

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._hasher.shutdown()
        self._flusher.shutdown()

    def add(self, name: PurePosixPath, source: Source) -> Member:
        """Copy one member in, hashing on the way.

        Raises ArchiveError for a name that is taken, leaves the root or is not UTF-8, and for a source that cannot be
        read or changes meanwhile.
        """
        _check_name(name)
        if str(name) in self._names:
            raise ArchiveError(f"Two files want to be {name} in the archive: rename one of them.")
        begin = self._stream.tell()
        with _open(source, name) as (reader, size):
            method = self._method(name, size)
            self._stream.write(layout.local_header(Entry(str(name), method, 0, 0, size, begin)))
            crc, compressed, member = self._copy(reader, method)
        if member.size != size:
            raise ArchiveError(f"{name} changed while it was packed: let what writes it finish, then build again.")
        entry = Entry(str(name), method, crc, compressed, size, begin)
        end = self._stream.tell()
        self._stream.seek(begin)
        self._stream.write(layout.local_header(entry))
        self._stream.seek(end)
        self._entries.append(entry)
        self._names.add(entry.name)
        return member

    def _method(self, name: PurePosixPath, size: int) -> int:
        text = name.suffix in DEFLATED_SUFFIXES and str(name) not in SEALS and size < MAX_DEFLATED_BYTES
        return layout.DEFLATED if text and not self._store else layout.STORED

    def _copy(self, reader: IO[bytes], method: int) -> tuple[int, int, Member]:
        """Copy to the end. Returns the CRC of the content, the bytes written, and the member."""
        content, lying = hashlib.sha256(), hashlib.sha256()
        compressor = zlib.compressobj(DEFLATE_LEVEL, zlib.DEFLATED, RAW_DEFLATE) if method == layout.DEFLATED else None
        crc = size = compressed = 0

        def put(data: bytes) -> None:
            nonlocal compressed
            self._stream.write(data)
            compressed += len(data)
            if compressor:
                lying.update(data)

        hashing: deque[Future[None]] = deque()
        while chunk := reader.read(CHUNK_BYTES):
            hashing.append(self._hasher.submit(content.update, chunk))
            crc = zlib.crc32(chunk, crc)
            size += len(chunk)
            put(compressor.compress(chunk) if compressor else chunk)
            self._flush_behind(len(chunk))
            if len(hashing) > HASH_LAG:
                hashing.popleft().result()
        for one in hashing:
            one.result()
        if compressor:
            put(compressor.flush())
        return crc, compressed, Member(size, content.hexdigest(), lying.hexdigest() if compressor else None)

    def _flush_behind(self, count: int) -> None:
        self._unflushed += count
        if self._unflushed >= FLUSH_BYTES:
            self._unflushed = 0
            with contextlib.suppress(io.UnsupportedOperation):  # a stream in memory
                self._flushes.append(self._flusher.submit(os.fdatasync, self._stream.fileno()))

    def close(self) -> None:
        """Write the central directory. Raises OSError for what the disk did not take."""
        for one in self._flushes:
            one.result()
        begin = self._stream.tell()
        for entry in self._entries:
            self._stream.write(layout.central_header(entry))
        size = self._stream.tell() - begin
        self._stream.write(layout.end_of_directory(len(self._entries), begin, size))


def _check_name(name: PurePosixPath) -> None:
    if name.is_absolute() or ".." in name.parts or name.name == "":
        raise ArchiveError(f"The member name {name} leaves the archive: give it a relative name without '..'.")
    try:
        str(name).encode("utf-8")
    except UnicodeEncodeError:
        raise ArchiveError(f"The file name {str(name)!r} is not UTF-8, which a .mar needs: rename the file.") from None


@contextmanager
def _open(source: Source, name: PurePosixPath) -> Iterator[tuple[IO[bytes], int]]:
    """A reader of the source, and its size in bytes. Raises ArchiveError when it cannot be had."""
    if isinstance(source, bytes):
        yield io.BytesIO(source), len(source)
        return
    try:
        reader = source.open("rb")
        size = source.stat().st_size
    except OSError as error:
        raise ArchiveError(f"The file {source} for {name} cannot be read: {error.strerror or error}.") from None
    with reader:
        yield reader, size


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
