"""Write .mar archives: the same bytes for the same members, in one pass, at its name whole or not at all.

A .mar is a zip file that TorchServe reads as a stream: no data descriptors, so every member's size stands before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from marsmith.errors import ArchiveError
from marsmith.ground.files import atomic, open_regular
from marsmith.ground.names import unsafe
from marsmith.ground.untrusted import printable
from marsmith.mar import records
from marsmith.mar.members import DIGESTS, SEALS, Digest, Members, Source, digests_json
from marsmith.mar.records import Entry

CHUNK_BYTES = 1 << 20
# Chunks that may wait for the hash while the next are copied.
HASH_LAG = 8
# Text is deflated; everything else is stored, so that it is copied and mapped at the disk's speed.
DEFLATED_SUFFIXES = frozenset({".py", ".json", ".yaml", ".yml", ".txt", ".md"})
# Past this a deflated member could outgrow the 32-bit sizes that its header is written with.
MAX_DEFLATED_BYTES = 1 << 30
DEFLATE_LEVEL = 9


def write_archive(
    path: Path, members: Members, check: Callable[[Path], None] | None = None, *, store: bool = False
) -> dict[str, Digest]:
    """Write an archive of `members` in their sorted order, then MAR-INF/digests.json. Returns what was written.

    The file gets its name when it is whole and `check`, which may read it where it lies, raised nothing; `store` leaves
    text undeflated. Raises ArchiveError.
    """
    written: dict[str, Digest] = {}
    made = [parent for parent in path.absolute().parents if not parent.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as stream, Writer(stream, store=store) as writer:
            for name in sorted(members, key=str):
                written[str(name)] = writer.add(name, members[name])
            written[DIGESTS] = writer.add(PurePosixPath(DIGESTS), digests_json(written))
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

    def add(self, name: PurePosixPath, source: Source) -> Digest:
        """Copy one member in, hashing on the way.

        Raises ArchiveError for a name that is taken, leaves the root or is not UTF-8, and for a source that cannot be
        read or changes meanwhile.
        """
        _check_name(name)
        if str(name) in self._names:
            raise ArchiveError(f"Two files want to be {name} in the archive: rename one of them.")
        begin = self._stream.tell()
        with open_source(source, name) as (reader, size):
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

    def _copy(self, reader: IO[bytes], method: int) -> tuple[int, int, Digest]:
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
        return crc, compressed, Digest(size, content.hexdigest(), lying.hexdigest() if compressor else None)

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
def open_source(source: Source, name: PurePosixPath) -> Iterator[tuple[IO[bytes], int]]:
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
