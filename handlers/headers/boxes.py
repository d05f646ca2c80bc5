"""Boxes of ISO base media files, and the items that HEIF describes in them (ISO/IEC 14496-12 and 23008-12)."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from handlers.meter import Meter, Step

BOXES = Step("boxes", 4_000)
ITEMS = Step("items", 8_000)
# libavif and libheif look each item up in a list, whoever names it.
NAMED_ITEMS = Step("items", 2)
COPIED_BYTES = Step("bytes of items", 2)

# Bytes of a list that name an item at least.
NAME_BYTES = 4
FULL_BYTES = 4
WIDE = 1
TYPE_BYTES = 4
IN_FILE, IN_DATA_BOX = 0, 1


@dataclass(frozen=True, slots=True)
class Box:
    """A box's type and where its content lies."""

    kind: bytes
    begin: int
    end: int


@dataclass(slots=True)
class Meta:
    """What a meta box says: types, places, properties and references of its items, by their ids."""

    primary: int = 0
    kinds: dict[int, bytes] = field(default_factory=dict)
    extents: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    properties: list[tuple[bytes, bytes]] = field(default_factory=list)
    owned: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    parts: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def property(self, item: int, kind: bytes) -> bytes:
        """The content of an item's property of this type; nothing where there is none."""
        own = (self.properties[place] for place in self.owned.get(item, ()) if 0 <= place < len(self.properties))
        return next((content for name, content in own if name == kind), b"")


def boxes(data: bytes, begin: int, end: int, meter: Meter) -> Iterator[Box]:
    """The boxes that lie side by side between two places."""
    while begin + 8 <= end:
        meter.spend(BOXES)
        size, kind = struct.unpack_from(">I4s", data, begin)
        head = 8
        if size == WIDE and begin + 16 <= end:
            (size,) = struct.unpack_from(">Q", data, begin + 8)
            head = 16
        elif size == 0:
            size = end - begin
        yield Box(kind, begin + head, min(begin + max(size, head), end))
        begin += max(size, head)


def read_meta(data: bytes, box: Box, meter: Meter) -> Meta:
    """The items of a meta box."""
    inner = list(boxes(data, box.begin + FULL_BYTES, box.end, meter))
    inner += [part for one in inner if one.kind == b"iprp" for part in boxes(data, one.begin, one.end, meter)]
    named = sum(one.end - one.begin for one in inner if one.kind in {b"iinf", b"iloc", b"ipma", b"iref"}) // NAME_BYTES
    meter.spend(NAMED_ITEMS, named**2)
    meter.spend(ITEMS, named)
    data_box = next((one for one in inner if one.kind == b"idat"), Box(b"idat", 0, 0))
    meta = Meta()
    for one in inner:
        reader = _Reader(data, one.begin, one.end)
        if one.kind == b"pitm":
            meta.primary = reader.number(2 if reader.version() == 0 else 4)
        elif one.kind == b"iinf":
            _read_kinds(data, one, meta, meter)
        elif one.kind == b"iloc":
            _read_places(reader, data_box.begin, meta)
        elif one.kind == b"ipco":
            owned = boxes(data, one.begin, one.end, meter)
            meta.properties += [(part.kind, data[part.begin : part.end]) for part in owned]
        elif one.kind == b"ipma":
            _read_owners(reader, meta)
        elif one.kind == b"iref":
            _read_references(data, one, meta, meter)
    return meta


def content(data: bytes, extents: list[tuple[int, int]], meter: Meter) -> bytes:
    """The bytes of an item, whose parts may lie apart."""
    total = sum(max(0, min(length, len(data) - place)) for place, length in extents)
    meter.spend(COPIED_BYTES, total)
    return b"".join(data[place : place + length] for place, length in extents)


class _Reader:
    """Reads numbers of a full box; past its end they are 0."""

    def __init__(self, data: bytes, begin: int, end: int) -> None:
        self._data, self.place, self._end = data, begin, end

    def version(self) -> int:
        return self.number(FULL_BYTES) >> 24

    def number(self, size: int) -> int:
        self.place += size
        return int.from_bytes(self._data[self.place - size : min(self.place, self._end)], "big")

    @property
    def more(self) -> bool:
        return self.place < self._end


def _read_kinds(data: bytes, box: Box, meta: Meta, meter: Meter) -> None:
    reader = _Reader(data, box.begin, box.end)
    reader.number(2 if reader.version() == 0 else 4)
    for entry in boxes(data, reader.place, box.end, meter):
        inner = _Reader(data, entry.begin, entry.end)
        item = inner.number(4 if inner.version() > 2 else 2)
        inner.number(2)
        meta.kinds[item] = data[inner.place : inner.place + TYPE_BYTES]


def _read_places(reader: _Reader, data_box: int, meta: Meta) -> None:
    version, sizes = reader.version(), reader.number(2)
    offset_size, length_size, base_size = sizes >> 12 & 15, sizes >> 8 & 15, sizes >> 4 & 15
    index_size = sizes & 15 if version else 0
    for _ in range(reader.number(4 if version > 1 else 2)):
        if not reader.more:
            return
        item = reader.number(4 if version > 1 else 2)
        method = reader.number(2) & 15 if version else IN_FILE
        reader.number(2)
        base = reader.number(base_size) + (data_box if method == IN_DATA_BOX else 0)
        for _ in range(reader.number(2)):
            if not reader.more:
                return
            reader.number(index_size)
            offset, length = reader.number(offset_size), reader.number(length_size)
            meta.extents[item].append((base + offset, length or 1 << 62))


def _read_owners(reader: _Reader, meta: Meta) -> None:
    head = reader.number(FULL_BYTES)
    wide, size = head >> 24, 2 if head & 1 else 1
    for _ in range(reader.number(4)):
        if not reader.more:
            return
        item = reader.number(4 if wide else 2)
        for _ in range(reader.number(1)):
            meta.owned[item].append((reader.number(size) & (0x7FFF if size == 2 else 0x7F)) - 1)


def _read_references(data: bytes, box: Box, meta: Meta, meter: Meter) -> None:
    size = 4 if data[box.begin : box.begin + 1] != b"\0" else 2
    for one in boxes(data, box.begin + FULL_BYTES, box.end, meter):
        reader = _Reader(data, one.begin, one.end)
        item = reader.number(size)
        count = min(reader.number(2), (one.end - one.begin) // size)
        others = [reader.number(size) for _ in range(count)]
        if one.kind == b"dimg":
            meta.parts[item] += others
