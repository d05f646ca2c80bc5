"""TIFF image file directories, in TIFF files, in EXIF and in the index of an MPO (TIFF 6.0, section 2)."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from handlers.meter import Meter, Step

# Pillow reads a directory up to three times, and makes Python objects of its values. EXIF is also written again.
ENTRIES = Step("metadata entries", 15_000)
NUMBERS = Step("metadata numbers", 1_000)
RATIONALS = Step("metadata fractions", 30_000)
METADATA_BYTES = Step("bytes of metadata", 10)

# With BigTIFF's longer place of the first directory; no directory fits in less.
HEADER_BYTES = 16
ORDERS = {b"II": "<", b"MM": ">"}
# The second two bytes of a header, in either order: 42, and 43 for BigTIFF, which Pillow knows by the first alone.
VERSIONS = {b"*\0", b"\0*", b"+\0", b"\0+"}
BIG = 43
# Bytes of one value, and struct's letter where it is a whole number (TIFF 6.0 and BigTIFF).
TYPES = {
    1: (1, "B"), 2: (1, "B"), 3: (2, "H"), 4: (4, "I"), 5: (8, ""), 6: (1, "b"), 7: (1, "B"), 8: (2, "h"), 9: (4, "i"),
    10: (8, ""), 11: (4, ""), 12: (8, ""), 13: (4, "I"), 16: (8, "Q"), 17: (8, "q"), 18: (8, "Q"),
}  # fmt: skip
RATIONAL = {5, 10}
# What Pillow keeps as bytes.
AS_BYTES = {1, 2, 7}
# Tags that hold the place of another directory: EXIF, GPS and interoperability.
NESTED = (34665, 34853, 40965)
EXIF_PREFIX = re.compile(rb"(Exif\0\0){1,2}")


@dataclass(slots=True)
class Directory:
    """One directory's entries: struct's sign of the byte order, and the type, count and raw values of each tag.

    Of a tag that stands twice the first counts; `repeated` has those tags.
    """

    order: str
    entries: dict[int, tuple[int, int, bytes]] = field(default_factory=dict)
    repeated: set[int] = field(default_factory=set)

    def numbers(self, tag: int) -> tuple[int, ...]:
        """A tag's whole numbers; none where it is missing or holds others."""
        kind, _, raw = self.entries.get(tag, (0, 0, b""))
        size, letter = TYPES.get(kind, (1, ""))
        return struct.unpack(f"{self.order}{len(raw) // size}{letter}", raw) if letter else ()

    def number(self, tag: int, default: int) -> int:
        """A tag's first number."""
        return next(iter(self.numbers(tag)), default)

    def count(self, tag: int) -> int:
        """How many values a tag states."""
        return self.entries.get(tag, (0, 0, b""))[1]


def exif(data: bytes, meter: Meter) -> None:
    """Spend what Pillow does with EXIF of these bytes, and of the directories in it."""
    meter.spend(METADATA_BYTES, len(data))
    match = EXIF_PREFIX.match(data)
    directory = read_directory(data[match.end() :] if match else data, meter)
    for tag in NESTED if directory else ():
        for place in directory.numbers(tag)[:1] if directory else ():
            read_directory(data[match.end() :] if match else data, meter, place)


def read_directory(data: bytes, meter: Meter, place: int | None = None) -> Directory | None:
    """The directory at `place`, or the first, of bytes that begin with a TIFF header; None where there is no header.

    Spends its entries before it looks at them, and their values before Pillow does.
    """
    order = ORDERS.get(data[:2])
    if order is None or data[2:4] not in VERSIONS or len(data) < HEADER_BYTES:
        return None
    big = data[2] == BIG
    if place is None:
        (place,) = struct.unpack_from(f"{order}{'Q' if big else 'I'}", data, 8 if big else 4)
    head, entry = (f"{order}Q", f"{order}HHQ8s") if big else (f"{order}H", f"{order}HHI4s")
    found = Directory(order)
    begin = place + struct.calcsize(head)
    if begin > len(data):
        return found
    (stated,) = struct.unpack_from(head, data, place)
    count = min(stated, (len(data) - begin) // struct.calcsize(entry))
    meter.spend(ENTRIES, count)
    total = 0
    for tag, kind, values, inline in struct.iter_unpack(entry, data[begin : begin + count * struct.calcsize(entry)]):
        size, _ = TYPES.get(kind, (0, ""))
        length = values * size
        if tag in found.entries:
            found.repeated.add(tag)
        if not size or tag in found.entries:
            continue
        if length <= len(inline):
            raw = inline[:length]
        else:
            (at,) = struct.unpack(f"{order}{'Q' if big else 'I'}", inline)
            total += length
            # Pillow passes over values that are, together, more than the file.
            raw = b"" if total > len(data) else data[at : at + length]
        meter.spend(METADATA_BYTES, len(raw))
        if kind not in AS_BYTES:
            meter.spend(RATIONALS if kind in RATIONAL else NUMBERS, len(raw) // size)
        found.entries[tag] = (kind, values, raw[: len(raw) // size * size])
    return found
