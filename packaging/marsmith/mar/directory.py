"""The central directory of a zip file as it lies, trusted in nothing: what it says, and what of that is ambiguous."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from marsmith.ground.limits import MAX_DIRECTORY_BYTES, MAX_MEMBERS
from marsmith.mar import records
from marsmith.mar.fields import decode_name, name_fault, numbers, record_faults
from marsmith.mar.problems import Unreadable
from marsmith.mar.records import Entry

# The end record may be followed by a comment, whose length has 16 bits.
TAIL_BYTES = records.END.size + records.UINT16
# The zip64 end record's own length field counts neither its signature nor itself.
END64_UNCOUNTED = 12


@dataclass(frozen=True, slots=True)
class Listed:
    """One record of the central directory: what it says, its `raw` bytes, and the `name` in them.

    `faults` say what readers could take differently, in phrases that follow the member's name.
    """

    entry: Entry
    flags: int
    when: tuple[int, int]
    name: bytes
    raw: bytes
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Directory:
    """The central directory in its own order; `offset` is where it begins, `end` the records after it.

    `trailing` counts the bytes after the end record, of which a comment is made too.
    """

    members: list[Listed]
    offset: int
    end: bytes
    trailing: int


@dataclass(frozen=True, slots=True)
class _End:
    """What the end records say, and their bytes."""

    count: int
    length: int
    offset: int
    raw: bytes


def read_directory(stream: IO[bytes]) -> Directory:
    """The central directory of a seekable stream. Raises Unreadable."""
    size = stream.seek(0, io.SEEK_END)
    begin = stream.seek(max(0, size - TAIL_BYTES))
    tail = stream.read()
    found = tail.rfind(records.END_SIGNATURE)
    if found < 0 or len(tail) - found < records.END.size:
        raise Unreadable("truncated", _cut_member(stream, size), "the end of the archive is missing")
    trailing = len(tail) - found - records.END.size
    end = _read_end(stream, begin + found, tail[found : found + records.END.size])
    if end.offset + end.length != begin + found + records.END.size - len(end.raw):
        raise Unreadable("directory", None, "the end record does not fit the directory before it")
    if end.count > MAX_MEMBERS or end.length > MAX_DIRECTORY_BYTES:
        raise Unreadable("limit", None, f"the directory has more than {MAX_MEMBERS:,} members, or too many bytes")
    stream.seek(end.offset)
    members = list(_records(stream, stream.read(end.length), end.count, end.offset))
    return Directory(members, end.offset, end.raw, trailing)


def _read_end(stream: IO[bytes], place: int, raw: bytes) -> _End:
    """The end record at `place`, with the zip64 end record before it, if there is one. Raises Unreadable.

    Some readers look for the zip64 record always, others only where a number of the end record is full. So where both
    are there, they must say the same.
    """
    _, *disks, count, length, offset, comment = records.END.unpack(raw)
    if disks != [0, 0, count]:
        raise Unreadable("directory", None, "the end record speaks of several disks")
    if comment:
        raise Unreadable("directory", None, "the archive has a comment, where other readers look for another directory")
    width = records.END64.size + records.LOCATOR.size
    stream.seek(max(0, place - width))
    before = stream.read(min(place, width))
    if not before[-records.LOCATOR.size :].startswith(records.LOCATOR_SIGNATURE):
        if count == records.UINT16 or records.UINT32 in (length, offset):
            raise Unreadable("directory", None, "the zip64 end record is missing or not where it belongs")
        return _End(count, length, offset, raw)
    if len(before) < width or not before.startswith(records.END64_SIGNATURE):
        raise Unreadable("directory", None, "the zip64 end record is missing or not where it belongs")
    _, own, _, needed, *disks, count64, length64, offset64 = records.END64.unpack_from(before)
    _, first, at, total = records.LOCATOR.unpack_from(before, records.END64.size)
    narrow = (min(count64, records.UINT16), min(length64, records.UINT32), min(offset64, records.UINT32))
    if (own, at) != (records.END64.size - END64_UNCOUNTED, place - width) or needed > records.VERSION64:
        raise Unreadable("directory", None, "the zip64 end record is not where it belongs, or not of its usual form")
    if (*disks, first, total) != (0, 0, count64, 0, 1):
        raise Unreadable("directory", None, "the zip64 end record speaks of several disks")
    # A number that is not full may be full here: some writers fill all of them.
    if any(one not in (other, full) for one, other, full in zip((count, length, offset), narrow, FULL, strict=True)):
        raise Unreadable("directory", None, "the end record and the zip64 end record say different things")
    return _End(count64, length64, offset64, before + raw)


# What stands in the end record's count, length and offset where the zip64 record has the number.
FULL = (records.UINT16, records.UINT32, records.UINT32)


def _records(stream: IO[bytes], raw: bytes, count: int, begin: int) -> Iterator[Listed]:
    """The `count` records of a directory that begins at `begin`. Raises Unreadable."""
    position, suspect, last = 0, None, None
    for _ in range(count):
        if not raw.startswith(records.CENTRAL_SIGNATURE, position) or len(raw) - position < records.CENTRAL.size:
            name = _name_in_header(stream, suspect or last)
            raise Unreadable("directory", name, f"the directory breaks off at or after {name or 'its beginning'}")
        fields = records.CENTRAL.unpack_from(raw, position)
        name_length, extra_length, comment_length = fields[10:13]
        end = position + records.CENTRAL.size + name_length + extra_length + comment_length
        listed = _listed(fields, raw[position:end])
        last = listed.entry
        if last.offset >= begin:
            raise Unreadable("changed", last.name, f"{last.name} has no header where the directory says")
        yield listed
        # A length that was changed may swallow whole records behind it.
        suspect = suspect or (last if comment_length or (extra_length and records.UINT32 not in fields) else None)
        position = end
    if position != len(raw):
        name = _name_in_header(stream, suspect or last)
        raise Unreadable("directory", name, f"the directory does not end after {name or 'its beginning'}")


def _listed(fields: tuple[int, ...], raw: bytes) -> Listed:
    _, _, needed, flags, method, time, date, crc, compressed, size, name_length, extra_length, *rest = fields
    _, disk, _, attributes, offset = rest
    extra_begin = records.CENTRAL.size + name_length
    name = raw[records.CENTRAL.size : extra_begin]
    widened = numbers(raw[extra_begin : extra_begin + extra_length], (size, compressed, offset), together=False)
    size, compressed, offset = widened.values
    entry = Entry(decode_name(name, flags), method, crc, compressed, size, offset)
    odd_name = name_fault(name, flags)
    odd = record_faults(flags, needed, disk, attributes, folder=entry.name.endswith("/"))
    faults = (*widened.faults, *([odd_name] if odd_name else []), *odd)
    return Listed(entry, flags, (time, date), name, raw, faults)


def _name_in_header(stream: IO[bytes], entry: Entry | None) -> str | None:
    """The member's name from its own header, the first member's for None.

    The directory's is not to be had where a length there was changed.
    """
    stream.seek(entry.offset if entry else 0)
    raw = stream.read(records.LOCAL.size)
    if len(raw) < records.LOCAL.size or not raw.startswith(records.LOCAL_SIGNATURE):
        return entry.name if entry else None
    _, _, flags, *_, name_length, _ = records.LOCAL.unpack(raw)
    return decode_name(stream.read(name_length), flags)


def _cut_member(stream: IO[bytes], size: int) -> str | None:
    """The member in which a file without an end breaks off, followed from the front as far as it goes."""
    position, name = 0, None
    while True:
        stream.seek(position)
        raw = stream.read(records.LOCAL.size)
        if len(raw) < records.LOCAL.size or not raw.startswith(records.LOCAL_SIGNATURE):
            return name
        _, _, flags, _, _, _, _, compressed, content, name_length, extra_length = records.LOCAL.unpack(raw)
        raw_name = stream.read(name_length)
        if len(raw_name) < name_length:
            return name
        name = decode_name(raw_name, flags)
        _, compressed = numbers(stream.read(extra_length), (content, compressed), together=True).values
        position += records.LOCAL.size + name_length + extra_length + compressed
        if position > size:
            return name
