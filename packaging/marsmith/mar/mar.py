"""Write and read .mar archives: the same bytes for the same members, one pass, at its name whole or not at all.

A .mar is a zip file that TorchServe reads as a stream: no data descriptors, so every member's size stands before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
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

from marsmith.errors import ArchiveError, first_line
from marsmith.ground import yamls
from marsmith.ground.atomic import atomic
from marsmith.ground.digest import file_sha256
from marsmith.ground.limits import MAX_PAPER_BYTES, MAX_YAML_BYTES
from marsmith.ground.names import unsafe
from marsmith.ground.paths import is_file, open_regular, read_regular
from marsmith.ground.serving import dump_json
from marsmith.ground.untrusted import json_value, mapping, plain, printable
from marsmith.mar import records
from marsmith.mar.records import Entry

MANIFEST = "MAR-INF/MANIFEST.json"
DIGESTS = "MAR-INF/digests.json"
SIGNATURE = "MAR-INF/signature.json"
GOLDEN = "MAR-INF/golden.json"
ACCURACY = "MAR-INF/accuracy.json"
SBOM = "MAR-INF/sbom.cdx.json"
PROVENANCE = "MAR-INF/provenance.json"
SERVING = "model/serving.json"
CONFIG = "model-config.yaml"
REQUIREMENTS = "requirements.txt"
# They seal the rest, so they stand last and stored: one bit of them more or less shows in their CRC.
SEALS = (DIGESTS, SIGNATURE)
CHUNK_BYTES = 1 << 20
# Chunks that may wait for the hash while the next are copied.
HASH_LAG = 8
# Text is deflated; everything else is stored, so that it is copied and mapped at the disk's speed.
DEFLATED_SUFFIXES = frozenset({".py", ".json", ".yaml", ".yml", ".txt", ".md"})
# Past this a deflated member could outgrow the 32-bit sizes that its header is written with.
MAX_DEFLATED_BYTES = 1 << 30
DEFLATE_LEVEL = 9

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
    made = [parent for parent in path.absolute().parents if not parent.exists()]
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
    except BaseException as error:
        for directory in made:
            with contextlib.suppress(OSError):  # another build may have put its archive there
                directory.rmdir()
        if isinstance(error, OSError):
            raise ArchiveError(f"The archive {path} cannot be written: {error.strerror or error}.") from None
        raise
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


def member_of(source: Source) -> Member:
    """What a member would be that is not deflated. Raises OSError."""
    return Member(len(source) if isinstance(source, bytes) else source.stat().st_size, source_sha256(source))


class Writer:
    """Writes members one after the other into a seekable stream; `close` adds the central directory."""

    def __init__(self, stream: IO[bytes], entries: list[Entry] | None = None, *, store: bool = False) -> None:
        self._stream = stream
        self._entries = entries or []
        self._names = {entry.name for entry in self._entries}
        self._store = store
        # hashlib lets go of the interpreter: the second core hashes while the first one copies.
        self._hasher = ThreadPoolExecutor(1)
        self._buffers: list[bytearray] = []

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._hasher.shutdown()

    def add(self, name: PurePosixPath, source: Source) -> Member:
        """Copy one member in, hashing on the way.

        Raises ArchiveError for a name that is taken, leaves the root or is not UTF-8, and for a source that cannot be
        read or changes meanwhile.
        """
        _check_name(name)
        if str(name) in self._names:
            raise ArchiveError(f"Two files want to be {name} in the archive: rename one of them.")
        begin = self._stream.tell()
        with reading(source, name) as (reader, size):
            method = self._method(name, size)
            self._stream.write(records.local_header(Entry(str(name), method, 0, 0, size, begin)))
            crc, compressed, member = self._copy(reader, method)
        if member.size != size:
            raise ArchiveError(f"{name} changed while it was packed: let what writes it finish, then build again.")
        entry = Entry(str(name), method, crc, compressed, size, begin)
        end = self._stream.tell()
        self._stream.seek(begin)
        self._stream.write(records.local_header(entry))
        self._stream.seek(end)
        self._entries.append(entry)
        self._names.add(entry.name)
        return member

    def _method(self, name: PurePosixPath, size: int) -> int:
        text = name.suffix in DEFLATED_SUFFIXES and str(name) not in SEALS and size < MAX_DEFLATED_BYTES
        return records.DEFLATED if text and not self._store else records.STORED

    def _copy(self, reader: IO[bytes], method: int) -> tuple[int, int, Member]:
        """Copy to the end. Returns the CRC of the content, the bytes written, and the member."""
        content, lying = hashlib.sha256(), hashlib.sha256()
        compressor = (
            zlib.compressobj(DEFLATE_LEVEL, zlib.DEFLATED, records.RAW_DEFLATE) if method == records.DEFLATED else None
        )
        crc = size = compressed = 0

        def put(data: bytes | memoryview) -> None:
            nonlocal compressed
            self._stream.write(data)
            compressed += len(data)
            if compressor:
                lying.update(data)

        for chunk in self._chunks(reader, content.update):
            crc = zlib.crc32(chunk, crc)
            size += len(chunk)
            put(compressor.compress(chunk) if compressor else chunk)
        if compressor:
            put(compressor.flush())
        return crc, compressed, Member(size, content.hexdigest(), lying.hexdigest() if compressor else None)

    def _chunks(self, reader: IO[bytes], update: Callable[[memoryview], None]) -> Iterator[memoryview]:
        """What the reader holds, in few buffers that are used again and again; the hasher follows behind.

        Fresh memory for each chunk would cost more than the copy.
        """
        hashing: deque[tuple[Future[None], bytearray]] = deque()
        while True:
            if len(hashing) == HASH_LAG:
                self._take_back(*hashing.popleft())
            buffer = self._buffers.pop() if self._buffers else bytearray(CHUNK_BYTES)
            count = reader.readinto(buffer)  # type: ignore[attr-defined] # of every binary reader
            if not count:
                self._buffers.append(buffer)
                break
            chunk = memoryview(buffer)[:count]
            hashing.append((self._hasher.submit(update, chunk), buffer))
            yield chunk
        for hashed in hashing:
            self._take_back(*hashed)

    def _take_back(self, hashed: Future[None], buffer: bytearray) -> None:
        hashed.result()
        self._buffers.append(buffer)

    def close(self) -> None:
        """Write the central directory."""
        begin = self._stream.tell()
        for entry in self._entries:
            self._stream.write(records.central_header(entry))
        size = self._stream.tell() - begin
        self._stream.write(records.end_of_directory(len(self._entries), begin, size))


def _check_name(name: PurePosixPath) -> None:
    if reason := unsafe(str(name)):
        raise ArchiveError(
            f"The member name {printable(str(name))} {reason}: rename the file, and pack it by a relative path."
        )


@contextmanager
def reading(source: Source, name: PurePosixPath) -> Iterator[tuple[IO[bytes], int]]:
    """A reader of the source of member `name`, and its size in bytes. Raises ArchiveError when it cannot be had."""
    if isinstance(source, bytes):
        yield io.BytesIO(source), len(source)
        return
    try:
        reader = open_regular(source)
    except OSError as error:
        raise ArchiveError(f"The file {source} for {name} cannot be read: {error.strerror or error}.") from None
    with reader:
        yield reader, os.fstat(reader.fileno()).st_size


def extract(path: Path, out: Path) -> None:
    """Unpack an archive into the directory `out`. Raises ArchiveError."""
    with opened(path) as zip_file:
        zip_file.extractall(out)  # zipfile drops roots and ".."


def read(zip_file: zipfile.ZipFile, member: str, limit: int = MAX_PAPER_BYTES) -> bytes:
    """A member's content; empty where there is no such member. Raises ArchiveError past `limit` bytes."""
    try:
        with zip_file.open(member) as stream:
            content = stream.read(limit + 1)
    except KeyError:
        return b""
    if len(content) > limit:
        raise ArchiveError(f"{member} of the archive has more than {limit:,} bytes: it is not what it should be.")
    return content


def read_json(path: Path, member: str) -> dict[str, Any]:
    """One JSON member of an archive, unpacked or not; empty where it is none. Raises ArchiveError."""
    return mapping(json_value(_content(path, member, MAX_PAPER_BYTES)))


def read_yaml(path: Path, member: str) -> dict[str, Any]:
    """One YAML member of an archive, unpacked or not; empty where there is none. Raises ArchiveError."""
    text = _content(path, member, MAX_YAML_BYTES).decode("utf-8", "replace")
    try:
        value = yamls.load(text).value
    except yamls.YamlFault as fault:
        raise ArchiveError(f"{member} of {path} cannot be read: {fault}. Correct it and pack it again.") from None
    return mapping(plain(value))


def _content(path: Path, member: str, limit: int) -> bytes:
    if not path.is_dir():
        with opened(path) as zip_file:
            return read(zip_file, member, limit)
    try:
        return read_regular(path / member, limit) if is_file(path / member) else b""
    except OSError as error:
        raise ArchiveError(f"{path / member} cannot be read: {error.strerror or error}.") from None


@contextmanager
def opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive as a zip file; what goes wrong with it comes out as ArchiveError."""
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as zip_file:
            yield zip_file
    except FileNotFoundError:
        raise ArchiveError(f"There is no archive {path}. Build it with marsmith build.") from None
    except (OSError, EOFError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ArchiveError(f"{path} is not a readable archive ({first_line(error)}): build it again.") from None
