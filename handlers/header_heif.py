"""AVIF and HEIC: the coded images of a file, those that they are put together from, and a sequence's first sample."""

from __future__ import annotations

from collections.abc import Iterator

from handlers.boxes import Box, Meta, boxes, content, read_meta
from handlers.directory import exif
from handlers.header_av1 import Coded, read_av1
from handlers.header_hevc import read_hevc
from handlers.meter import MAX_IMAGE_MEMORY, Extent, Meter, Step

CODED_PIXELS = Step("pixels", 70)
CODED_BYTES = Step("bytes of coded pixels", 40)
# Converted from luma and chroma, put together, and copied.
SHOWN_PIXELS = Step("pixels", 25)

AV1, HEVC = {b"av01"}, {b"hvc1", b"hev1"}
DERIVED = {b"grid", b"iovl", b"iden", b"tmap"}
CONTAINERS = {b"trak", b"mdia", b"minf", b"stbl"}
SIDES_BYTES = 12
# Items that are put together from items, one from another.
MOST_LEVELS = 8
# Of each shown pixel: the decoder's RGB, Python's copy of it, or that and Pillow's pixels; and of each coded one, what
# decoders keep of its blocks beside its samples, once more where tiles are put together.
SHOWN_BYTES = 8
BLOCK_BYTES = 1
COPIES = 2
MOST_LISTED = 1_000


def read_heif(data: bytes, meter: Meter) -> Extent:
    """Spend what the file costs; the extent of its primary item or of its sequence."""
    width = height = pixels = shown = held = 0
    for box in boxes(data, 0, len(data), meter):
        if box.kind == b"meta":
            meta = read_meta(data, box, meter)
            coded = {item: _coded(data, meta, item, meter) for item in list(meta.kinds)}
            sides = [_sides(data, meta, item) for item in meta.kinds]
            width, height = max(_sides(data, meta, meta.primary), (width, height), key=_area)
            pixels += _all_pixels(meta, {item: one.pixels for item, one in coded.items()})
            shown = max([shown, *map(_area, sides), *(one.largest for one in coded.values())])
            held += sum(one.held + BLOCK_BYTES * one.largest for one in coded.values()) * COPIES
            _spend_exif(data, meta, meter)
        elif box.kind == b"moov":
            for one in _first_samples(data, box, meter):
                pixels, shown = pixels + one.pixels, max(shown, one.largest)
                held += one.held + BLOCK_BYTES * one.largest
        if held > MAX_IMAGE_MEMORY:
            break
    meter.check_sides(width, height)
    meter.spend(CODED_BYTES, min(len(data), pixels))
    meter.spend(CODED_PIXELS, pixels)
    meter.spend(SHOWN_PIXELS, shown)
    return Extent(width, height, held + shown * SHOWN_BYTES + 2 * len(data))


def _area(sides: tuple[int, int]) -> int:
    return sides[0] * sides[1]


def _coded(data: bytes, meta: Meta, item: int, meter: Meter) -> Coded:
    """What is coded in an item itself."""
    kind = meta.kinds[item]
    if kind in AV1:
        return read_av1(content(data, meta.extents.get(item, []), meter), meter)
    if kind in HEVC:
        configuration = meta.property(item, b"hvcC")
        return read_hevc(configuration, content(data, meta.extents.get(item, []), meter), meter)
    if kind in DERIVED:
        return Coded(0, 0, 0)
    area = _area(_sides(data, meta, item))
    return Coded(area, area, 4 * area)


def _sides(data: bytes, meta: Meta, item: int) -> tuple[int, int]:
    """The sides that an item states, or that a grid states in its own content, whichever is larger."""
    stated = meta.property(item, b"ispe")
    sides = int.from_bytes(stated[4:8], "big"), int.from_bytes(stated[8:12], "big")
    extents = meta.extents.get(item, [])
    if meta.kinds.get(item) != b"grid" or not extents:
        return sides
    place, _ = extents[0]
    grid = data[place : place + SIDES_BYTES]
    size = 4 if grid[1:2] and grid[1] & 1 else 2
    own = int.from_bytes(grid[4 : 4 + size], "big"), int.from_bytes(grid[4 + size : 4 + 2 * size], "big")
    return max(sides, own, key=_area)


def _all_pixels(meta: Meta, own: dict[int, int]) -> int:
    """Pixels of every item, those of an item's parts as often as it names them."""
    known: dict[int, int] = {}

    def together(item: int, levels: int) -> int:
        if item not in known:
            known[item] = own.get(item, 0)
            if levels:
                known[item] += sum(together(part, levels - 1) for part in meta.parts.get(item, ()))
        return known[item]

    parts = {part for several in meta.parts.values() for part in several}
    return sum(together(item, MOST_LEVELS) for item in own if item not in parts)


def _spend_exif(data: bytes, meta: Meta, meter: Meter) -> None:
    """EXIF begins behind four bytes that say where its TIFF header is."""
    for item, kind in meta.kinds.items():
        if kind == b"Exif":
            raw = content(data, meta.extents.get(item, []), meter)
            exif(raw[4 + int.from_bytes(raw[:4], "big") :], meter)
            exif(raw[4:], meter)


def _first_samples(data: bytes, box: Box, meter: Meter) -> Iterator[Coded]:
    """The first sample of each track: of a sequence, the only one that is decoded."""
    for track in boxes(data, box.begin, box.end, meter):
        if track.kind != b"trak":
            continue
        tables = {one.kind: one for one in _leaves(data, track, meter)}
        place, size = _first_place(data, tables.get(b"stco"), 4) or _first_place(data, tables.get(b"co64"), 8), 0
        if lengths := tables.get(b"stsz"):
            size = int.from_bytes(data[lengths.begin + 4 : lengths.begin + 8], "big")
            size = size or int.from_bytes(data[lengths.begin + 12 : lengths.begin + 16], "big")
        sample = data[place : place + size]
        described = tables.get(b"stsd", Box(b"", 0, 0))
        configured = data.find(b"hvcC", described.begin, described.end)
        if configured >= 0:
            yield read_hevc(data[configured + 4 : described.end], sample, meter)
        else:
            yield read_av1(sample, meter)


def _first_place(data: bytes, table: Box | None, size: int) -> int:
    return int.from_bytes(data[table.begin + 8 : table.begin + 8 + size], "big") if table else 0


def _leaves(data: bytes, box: Box, meter: Meter) -> Iterator[Box]:
    for one in boxes(data, box.begin, box.end, meter):
        if one.kind in CONTAINERS:
            yield from _leaves(data, one, meter)
        else:
            yield one
