"""AVIF and HEIC: the coded images of a file, those that they are put together from, and a sequence's first sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from handlers.headers.av1 import Coded, read_av1
from handlers.headers.boxes import Box, Meta, boxes, content, read_meta
from handlers.headers.directory import exif
from handlers.headers.hevc import read_hevc
from handlers.meter import Extent, Meter, Step

OTHER_PIXELS = Step("pixels", 100)
# Converted from luma and chroma, put together, and copied.
SHOWN_PIXELS = Step("pixels", 15)

AV1, HEVC = {b"av01"}, {b"hvc1", b"hev1"}
DERIVED = {b"grid", b"iovl", b"iden", b"tmap"}
CONTAINERS = {b"trak", b"mdia", b"minf", b"stbl"}
SIDES_BYTES = 12
# Items that are put together from items, one from another.
MOST_LEVELS = 8
OTHER_BYTES = 4
# Of each shown pixel: the decoder's RGB, Python's copy of it, or that and Pillow's pixels; and of each coded one, what
# decoders keep of its blocks beside its samples, once more where tiles are put together.
SHOWN_BYTES = 8
BLOCK_BYTES = 1
COPIES = 2


def read_heif(data: bytes, meter: Meter) -> Extent:
    """Spend what the file costs; the extent of its primary item or of its sequence."""
    width = height = shown = held = 0
    for box in boxes(data, 0, len(data), meter):
        if box.kind == b"meta":
            meta = read_meta(data, box, meter)
            width, height = max(_sides(data, meta, meta.primary), (width, height), key=_area)
            meter.check_sides(width, height)
            copies = COPIES if any(kind in DERIVED for kind in meta.kinds.values()) else 1
            uses = _uses(meta)
            for item in meta.kinds:
                coded = _coded(data, meta, item, meter)
                meter.spend(coded.step, coded.pixels * max(1, uses[item]))
                shown = max(shown, coded.largest, _area(_sides(data, meta, item)))
                held += (coded.held + BLOCK_BYTES * coded.largest) * copies
            _spend_exif(data, meta, meter)
        elif box.kind == b"moov":
            for coded in _first_samples(data, box, meter):
                meter.spend(coded.step, coded.pixels)
                shown, held = max(shown, coded.largest), held + coded.held + BLOCK_BYTES * coded.largest
    meter.check_sides(width, height)
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
    area = 0 if kind in DERIVED else _area(_sides(data, meta, item))
    return Coded(OTHER_PIXELS, area, area, OTHER_BYTES * area)


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


def _uses(meta: Meta) -> Counter[int]:
    """How often each item is decoded: as often as those that are put together from it name it."""
    parts = {part for several in meta.parts.values() for part in several}
    uses = level = Counter(item for item in meta.kinds if item not in parts)
    for _ in range(MOST_LEVELS):
        below: Counter[int] = Counter()
        for item, times in level.items():
            for part in meta.parts.get(item, ()):
                below[part] += times
        uses, level = uses + below, below
    return uses


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
