"""Zip files written field by field, sound but for the fields that a test overrides."""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

CODE = b"def handle(data, context):\n    return data\n" * 3
STORED, DEFLATED = 0, 8
UTF8, DESCRIPTOR = 0x800, 0x08
Fields = Mapping[str, int | bytes]

LOCAL = ("version", "flags", "method", "time", "date", "crc", "compressed", "size")
CENTRAL = ("made_by", *LOCAL)
REGULAR_MODE = 0o100644 << 16


@dataclass(frozen=True)
class Member:
    """One member: `local` and `central` override fields of its two records, `raw` the data as it lies.

    `flags` and `extra` are of both records; a `descriptor` follows the data.
    """

    name: bytes = b"m.py"
    data: bytes = CODE
    method: int = DEFLATED
    flags: int = 0
    extra: bytes = b""
    raw: bytes | None = None
    descriptor: bytes = b""
    local: Fields = field(default_factory=dict)
    central: Fields = field(default_factory=dict)

    @property
    def lying(self) -> bytes:
        return self.raw if self.raw is not None else deflate(self.data) if self.method == DEFLATED else self.data

    def _fields(self, overrides: Fields) -> dict[str, int | bytes]:
        numbers: dict[str, int | bytes] = {
            "made_by": 3 << 8 | 20,
            "version": 20,
            "flags": self.flags,
            "method": self.method,
            "time": 0,
            "date": 33,
            "crc": zlib.crc32(self.data),
            "compressed": len(self.lying),
            "size": len(self.data),
            "name": self.name,
            "extra": self.extra,
            "comment": b"",
            "disk": 0,
            "internal": 0,
            "external": REGULAR_MODE,
        }
        return numbers | dict(overrides)

    def header(self) -> bytes:
        fields = self._fields(self.local)
        name, extra = _bytes(fields["name"]), _bytes(fields["extra"])
        numbers = [fields[one] for one in LOCAL]
        return struct.pack("<4s5H3I2H", b"PK\3\4", *numbers, len(name), len(extra)) + name + extra

    def record(self, offset: int) -> bytes:
        fields = self._fields({"offset": offset, **self.central})
        name, extra, comment = (_bytes(fields[one]) for one in ("name", "extra", "comment"))
        numbers = [*(fields[one] for one in CENTRAL), len(name), len(extra), len(comment)]
        rest = [fields[one] for one in ("disk", "internal", "external", "offset")]
        return struct.pack("<4s6H3I5H2I", b"PK\1\2", *numbers, *rest) + name + extra + comment


def crafted(
    *members: Member,
    between: bytes = b"",
    unlisted: Member | None = None,
    before_directory: bytes = b"",
    before_end: bytes = b"",
    end: Fields | None = None,
    after: bytes = b"",
) -> bytes:
    """The members, `between` after the first, `unlisted` after them all; `end` overrides fields of the end record."""
    data, offsets = b"", []
    for number, one in enumerate(members):
        offsets.append(len(data))
        data += one.header() + one.lying + one.descriptor + (between if number == 0 else b"")
    if unlisted:
        data += unlisted.header() + unlisted.lying
    data += before_directory
    records = b"".join(one.record(offset) for one, offset in zip(members, offsets, strict=True))
    count = len(members)
    fields: dict[str, int | bytes] = {"disk": 0, "start": 0, "here": count, "count": count}
    fields |= {"length": len(records), "offset": len(data), "comment": b"", "comment_length": -1, **(end or {})}
    comment = _bytes(fields["comment"])
    length = len(comment) if fields["comment_length"] == -1 else fields["comment_length"]
    numbers = [fields[one] for one in ("disk", "start", "here", "count", "length", "offset")]
    return data + records + before_end + struct.pack("<4s4H2IH", b"PK\5\6", *numbers, length) + comment + after


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def extra_field(tag: int, content: bytes = b"") -> bytes:
    return struct.pack("<2H", tag, len(content)) + content


def zip64(*numbers: int) -> bytes:
    return extra_field(1, struct.pack(f"<{len(numbers)}Q", *numbers))


def descriptor(data: bytes, lying: bytes, *, sizes: str = "I", signature: bytes = b"PK\7\x08") -> bytes:
    return signature + struct.pack(f"<I2{sizes}", zlib.crc32(data), len(lying), len(data))


def end64(count: int, length: int, offset: int, *, size: int = 44, at: int | None = None, total: int = 1) -> bytes:
    """The zip64 end record of a directory at `offset`, and its locator."""
    record = struct.pack("<4sQ2H2I4Q", b"PK\6\6", size, 45, 45, 0, 0, count, count, length, offset)
    return record + struct.pack("<4sIQI", b"PK\6\7", 0, offset + length if at is None else at, total)


def _bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value
