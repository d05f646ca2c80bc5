"""The zip records of a Marsmith archive, byte for byte: what `mar` writes, and what `verify` expects to find.

One spelling for each record (PKWARE's APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12 and 4.3.14 to 4.3.16): no clock, no
owner, no comment, no data descriptor, zip64 only where a number needs it.
"""

from __future__ import annotations

import struct
import zipfile
from dataclasses import dataclass

STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
# zlib's number for a deflate stream without a header of its own.
RAW_DEFLATE = -15

LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR = struct.Struct("<4sIQI")
LOCAL_SIGNATURE, CENTRAL_SIGNATURE = b"PK\3\4", b"PK\1\2"
END_SIGNATURE, END64_SIGNATURE, LOCATOR_SIGNATURE = b"PK\5\6", b"PK\6\6", b"PK\6\7"

ZIP64_TAG = 1
UINT16, UINT32 = 0xFFFF, 0xFFFFFFFF
VERSION, VERSION64 = 20, 45
UNIX = 3 << 8
UTF8_FLAG = 0x800
DESCRIPTOR_FLAG = 0x08
# 1980-01-01, 00:00: the first instant that zip can express.
TIME, DATE = 0, 1 << 5 | 1
MODE = 0o100644 << 16


@dataclass(frozen=True, slots=True)
class Entry:
    """One member as the zip records describe it: sizes and `offset` of its local header in bytes."""

    name: str
    method: int
    crc: int
    compressed: int
    size: int
    offset: int


def local_header(entry: Entry) -> bytes:
    """The record that stands before a member's data."""
    name, flags = _name(entry.name)
    zip64 = entry.size >= UINT32
    extra = struct.pack("<2H2Q", ZIP64_TAG, 16, entry.size, entry.compressed) if zip64 else b""
    sizes = (UINT32, UINT32) if zip64 else (entry.compressed, entry.size)
    version = VERSION64 if zip64 else VERSION
    fixed = LOCAL.pack(
        LOCAL_SIGNATURE, version, flags, entry.method, TIME, DATE, entry.crc, *sizes, len(name), len(extra)
    )
    return fixed + name + extra


def central_header(entry: Entry) -> bytes:
    """The member's record in the central directory."""
    name, flags = _name(entry.name)
    wide = [entry.size, entry.compressed] if entry.size >= UINT32 else []
    sizes = (UINT32, UINT32) if wide else (entry.compressed, entry.size)
    offset = entry.offset
    if offset >= UINT32:
        wide.append(offset)
        offset = UINT32
    extra = struct.pack(f"<2H{len(wide)}Q", ZIP64_TAG, 8 * len(wide), *wide) if wide else b""
    version = VERSION64 if wide else VERSION
    fixed = CENTRAL.pack(
        *(CENTRAL_SIGNATURE, UNIX | version, version, flags, entry.method, TIME, DATE, entry.crc, *sizes),
        *(len(name), len(extra), 0, 0, 0, MODE, offset),
    )
    return fixed + name + extra


def end_of_directory(count: int, offset: int, size: int) -> bytes:
    """The records after a central directory of `count` entries and `size` bytes that begins at `offset`."""
    records = b""
    if count >= UINT16 or offset >= UINT32 or size >= UINT32:
        length = END64.size - 12  # the record does not count its signature and this number
        records += END64.pack(END64_SIGNATURE, length, VERSION64, VERSION64, 0, 0, count, count, size, offset)
        records += LOCATOR.pack(LOCATOR_SIGNATURE, 0, offset + size, 1)
    count, size, offset = min(count, UINT16), min(size, UINT32), min(offset, UINT32)
    return records + END.pack(END_SIGNATURE, 0, 0, count, count, size, offset, 0)


def _name(name: str) -> tuple[bytes, int]:
    encoded = name.encode("utf-8")
    return encoded, 0 if name.isascii() else UTF8_FLAG
