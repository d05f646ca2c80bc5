"""Read a zip file's records as they lie, trusting none: the directory, then every member from the first byte on.

TorchServe reads an archive from the front and never looks at the directory; Python reads the directory. A file is only
sound when both see the same.
"""

from __future__ import annotations

import contextlib
import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Literal

from marsmith import layout
from marsmith.layout import Entry
from marsmith.limits import MAX_DIRECTORY_BYTES, MAX_MEMBERS
from marsmith.untrusted import printable

CHUNK_BYTES = 1 << 20
# The end record may be followed by a comment, whose length has 16 bits.
TAIL_BYTES = layout.END.size + layout.UINT16
ENCRYPTED_FLAG = 0x01
# A member's descriptor after its data: with or without its signature, with sizes of 32 or 64 bits.
DESCRIPTOR_SIGNATURE = b"PK\7\x08"

Kind = Literal[
    "added",
    "changed",
    "directory",
    "duplicate",
    "limit",
    "missing",
    "order",
    "signature",
    "trailing",
    "truncated",
    "unsafe",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it was written; `member` is None where it belongs to no member."""

    kind: Kind
    member: str | None
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message))


class Unreadable(Exception):
    """A problem past which the file cannot be followed."""

    def __init__(self, kind: Kind, member: str | None, message: str) -> None:
        super().__init__(printable(message))
        self.problem = Problem(kind, member, message)


@dataclass(frozen=True, slots=True)
class Listed:
    """One record of the central directory: what it says, and its bytes."""

    entry: Entry
    flags: int
    when: tuple[int, int]
    raw: bytes


@dataclass(frozen=True, slots=True)
class Directory:
    """The central directory in its own order; `offset` is where it begins, `end` the records after it."""

    members: list[Listed]
    offset: int
    end: bytes
    trailing: int


def read_directory(stream: IO[bytes]) -> Directory:
    """The central directory of a seekable stream. Raises Unreadable."""
    size = stream.seek(0, io.SEEK_END)
    begin = stream.seek(max(0, size - TAIL_BYTES))
    tail = stream.read()
    found = tail.rfind(layout.END_SIGNATURE)
    if found < 0 or len(tail) - found < layout.END.size:
        raise Unreadable("truncated", _cut_member(stream, size), "the end of the archive is missing")
    _, *disks, count, length, offset, _comment = layout.END.unpack_from(tail, found)
    ends = begin + found
    end = tail[found : found + layout.END.size]
    trailing = len(tail) - found - layout.END.size
    if count == layout.UINT16 or layout.UINT32 in (length, offset):
        count, length, offset, wide = _read_end64(stream, ends)
        end = wide + end
        ends -= len(wide)
    if disks not in ([0, 0, count], [0, 0, layout.UINT16]):
        raise Unreadable("directory", None, "the end record speaks of several disks")
    if offset + length != ends or count > MAX_MEMBERS or length > MAX_DIRECTORY_BYTES:
        raise Unreadable("directory", None, "the end record does not fit the directory before it")
    stream.seek(offset)
    return Directory(list(_records(stream, stream.read(length), count)), offset, end, trailing)


def _read_end64(stream: IO[bytes], ends: int) -> tuple[int, int, int, bytes]:
    """Count, length and offset from the zip64 end record, and its bytes with the locator's."""
    width = layout.END64.size + layout.LOCATOR.size
    stream.seek(max(0, ends - width))
    raw = stream.read(width)
    if len(raw) < width or not raw.startswith(layout.END64_SIGNATURE):
        raise Unreadable("directory", None, "the zip64 end record is missing or not where it belongs")
    *_, count, length, offset = layout.END64.unpack_from(raw)
    return count, length, offset, raw


def _records(stream: IO[bytes], raw: bytes, count: int) -> Iterator[Listed]:
    position, suspect, last = 0, None, None
    for _ in range(count):
        if not raw.startswith(layout.CENTRAL_SIGNATURE, position) or len(raw) - position < layout.CENTRAL.size:
            name = _name_in_header(stream, suspect or last)
            raise Unreadable("directory", name, f"the directory breaks off at or after {name or 'its beginning'}")
        fields = layout.CENTRAL.unpack_from(raw, position)
        _, _, _, flags, method, time, date, crc, compressed, size, *lengths = fields
        name_length, extra_length, comment_length, _, _, _, offset = lengths
        begin = position + layout.CENTRAL.size
        end = begin + name_length + extra_length + comment_length
        name = decode_name(raw[begin : begin + name_length], flags)
        extra = raw[begin + name_length : begin + name_length + extra_length]
        size, compressed, offset = _widen(extra, size, compressed, offset)
        last = Entry(name, method, crc, compressed, size, offset)
        yield Listed(last, flags, (time, date), raw[position:end])
        # A length that was changed may swallow whole records behind it.
        suspect = suspect or (last if comment_length or (extra_length and layout.UINT32 not in fields) else None)
        position = end
    if position != len(raw):
        name = _name_in_header(stream, suspect or last)
        raise Unreadable("directory", name, f"the directory does not end after {name or 'its beginning'}")


def _name_in_header(stream: IO[bytes], entry: Entry | None) -> str | None:
    """The member's name from its own header, the first member's for None.

    The directory's is not to be had where a length there was changed.
    """
    stream.seek(entry.offset if entry else 0)
    raw = stream.read(layout.LOCAL.size)
    if len(raw) < layout.LOCAL.size or not raw.startswith(layout.LOCAL_SIGNATURE):
        return entry.name if entry else None
    _, _, flags, *_, name_length, _ = layout.LOCAL.unpack(raw)
    return decode_name(stream.read(name_length), flags)


def decode_name(raw: bytes, flags: int) -> str:
    """A member's name: UTF-8 where the flag says so, else the zip format's old code page."""
    return raw.decode("utf-8", "backslashreplace") if flags & layout.UTF8_FLAG else raw.decode("cp437")


def _widen(extra: bytes, *narrow: int) -> tuple[int, int, int]:
    """Replace the numbers that are all ones by those of the zip64 extra field."""
    numbers = list(narrow)
    position = 0
    while position + 4 <= len(extra):
        tag = int.from_bytes(extra[position : position + 2], "little")
        length = int.from_bytes(extra[position + 2 : position + 4], "little")
        field = extra[position + 4 : position + 4 + length]
        if tag == layout.ZIP64_TAG:
            for index, number in enumerate(numbers):
                if number == layout.UINT32 and len(field) >= 8:
                    numbers[index], field = int.from_bytes(field[:8], "little"), field[8:]
        position += 4 + length
    size, compressed, offset = numbers
    return size, compressed, offset


def _cut_member(stream: IO[bytes], size: int) -> str | None:
    """The member in which a file without an end breaks off, followed from the front as far as it goes."""
    position, name = 0, None
    while True:
        stream.seek(position)
        raw = stream.read(layout.LOCAL.size)
        if len(raw) < layout.LOCAL.size or not raw.startswith(layout.LOCAL_SIGNATURE):
            return name
        _, _, flags, _, _, _, _, compressed, content, name_length, extra_length = layout.LOCAL.unpack(raw)
        raw_name = stream.read(name_length)
        if len(raw_name) < name_length:
            return name
        name = decode_name(raw_name, flags)
        _, compressed, _ = _widen(stream.read(extra_length), content, compressed, 0)
        position += layout.LOCAL.size + name_length + extra_length + compressed
        if position > size:
            return name


class Member:
    """One member, to be read once: its header, `lying` through `inflated`, then `finish`.

    `raw_header` is its local header, `end` where the next member begins, `problems` what is wrong with it.
    """

    def __init__(self, stream: IO[bytes], listed: Listed) -> None:
        self._stream = stream
        self.listed = listed
        self.name = listed.entry.name
        self.problems: list[Problem] = []
        self.raw_header = self._read_header()
        self.end = 0

    def _report(self, kind: Kind, message: str) -> None:
        self.problems.append(Problem(kind, self.name, message))

    def _read_header(self) -> bytes:
        entry = self.listed.entry
        self._stream.seek(entry.offset)
        raw = self._stream.read(layout.LOCAL.size)
        if len(raw) < layout.LOCAL.size or not raw.startswith(layout.LOCAL_SIGNATURE):
            raise Unreadable("changed", self.name, f"{self.name} has no header where the directory says")
        _, _, flags, method, *when, crc, compressed, size, name_length, extra_length = layout.LOCAL.unpack(raw)
        name, extra = self._stream.read(name_length), self._stream.read(extra_length)
        size, compressed, _ = _widen(extra, size, compressed, 0)
        numbers = (crc, compressed, size) == (entry.crc, entry.compressed, entry.size)
        here = (decode_name(name, flags), flags, method, *when)
        if here != (entry.name, self.listed.flags, entry.method, *self.listed.when):
            self._report("changed", f"{self.name} is described differently by its header and by the directory")
        elif not numbers and not flags & layout.DESCRIPTOR_FLAG:
            self._report("changed", f"{self.name} has another size or CRC in its header than in the directory")
        size_behind = entry.method == layout.STORED and flags & layout.DESCRIPTOR_FLAG
        if flags & ENCRYPTED_FLAG or entry.method not in (layout.STORED, layout.DEFLATED) or size_behind:
            raise Unreadable(
                "unsafe", self.name, f"{self.name} is encrypted, or packed in a way that TorchServe cannot read"
            )
        return raw + name + extra

    def lying(self) -> Iterator[bytes]:
        """The data as it lies in the file."""
        left = self.listed.entry.compressed
        while left:
            chunk = self._stream.read(min(left, CHUNK_BYTES))
            if not chunk:
                raise Unreadable("truncated", self.name, f"the archive ends within {self.name}")
            left -= len(chunk)
            yield chunk

    def inflated(self, lying: Iterator[bytes]) -> Iterator[bytes]:
        """The content, from the data as it lies: never a byte more than the directory promises."""
        if self.listed.entry.method == layout.STORED:
            yield from lying
            return
        inflater = zlib.decompressobj(layout.RAW_DEFLATE)
        left = self.listed.entry.size
        surplus = False
        for chunk in lying:
            # TorchServe goes on reading where the stream ends: what stands there must be the next member.
            surplus = surplus or inflater.eof
            more = not inflater.eof
            while more and not inflater.eof:
                room = min(CHUNK_BYTES, left + 1)
                try:
                    content = inflater.decompress(chunk, room)
                except zlib.error:
                    self._report("changed", f"{self.name} cannot be inflated: its data was changed")
                    return
                left -= len(content)
                if left < 0:
                    self._report("limit", f"{self.name} inflates to more than the directory says")
                    return
                yield content
                # A full room may mean that the inflater holds more, even when it has taken all of the chunk.
                chunk, more = inflater.unconsumed_tail, len(content) == room
        if not inflater.eof or inflater.unused_data or surplus:
            self._report("changed", f"{self.name} has deflated data that breaks off or goes on past its end")

    def finish(self) -> None:
        """Find where the member ends: after its descriptor, if the flags announce one."""
        entry = self.listed.entry
        self.end = entry.offset + len(self.raw_header) + entry.compressed
        if not self.listed.flags & layout.DESCRIPTOR_FLAG:
            return
        for signature in (DESCRIPTOR_SIGNATURE, b""):
            for number in (struct.Struct("<I2I"), struct.Struct("<I2Q")):
                with contextlib.suppress(struct.error):
                    wanted = signature + number.pack(entry.crc, entry.compressed, entry.size)
                    self._stream.seek(self.end)
                    if self._stream.read(len(wanted)) == wanted:
                        self.end += len(wanted)
                        return
        self._report("changed", f"{self.name} has another size or CRC after its data than in the directory")
