"""TIFF: the first directory, and the strips or tiles that its image is cut into (TIFF 6.0 and its supplements)."""

from __future__ import annotations

from dataclasses import dataclass

from handlers.errors import MalformedRequest
from handlers.headers.directory import NESTED, Directory, read_directory
from handlers.meter import Extent, Meter, Step

STRIPS = Step("strips or tiles", 12_000)
# libtiff sorts its table of tags again for each that it does not know.
UNKNOWN_TAGS = Step("metadata entries", 100)
COPIED_BYTES = Step("bytes in reversed bit order", 3)
PIXELS = Step("pixels", 12)
# libtiff converts pixels of luma and chroma one by one, except JPEG's.
YCC_PIXELS = Step("pixels", 40)
JPEG_BYTES = Step("bytes of coded pixels", 20)
# Unpacking, by compression (tag 259): its name, and the price of one byte that it gives.
RAW, JPEG, OLD_JPEG = 1, 7, 6
UNPACKING = {
    RAW: Step("pixels", 2),
    2: Step("fax-coded pixels", 40),
    3: Step("fax-coded pixels", 40),
    4: Step("fax-coded pixels", 40),
    5: Step("LZW-coded pixels", 12),
    OLD_JPEG: Step("JPEG-coded pixels", 20),
    JPEG: Step("JPEG-coded pixels", 20),
    8: Step("deflated pixels", 9),
    32773: Step("run-length coded pixels", 5),
    32946: Step("deflated pixels", 9),
    34925: Step("LZMA-coded pixels", 110),
    50000: Step("Zstandard-coded pixels", 9),
}
OTHER_UNPACKING = Step("pixels", 120)
JPEGS = {OLD_JPEG, JPEG}
START_OF_SCAN = b"\xff\xda"

WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC, FILL_ORDER = 256, 257, 258, 259, 262, 266
STRIP_OFFSETS, SAMPLES, ROWS_PER_STRIP, STRIP_COUNTS, PLANES = 273, 277, 278, 279, 284
TILE_WIDTH, TILE_LENGTH, TILE_OFFSETS, TILE_COUNTS = 322, 323, 324, 325
# Two readers might take different ones of two entries for the same of these.
LAYOUT = {
    WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC, FILL_ORDER, STRIP_OFFSETS, SAMPLES, ROWS_PER_STRIP, STRIP_COUNTS,
    PLANES, TILE_WIDTH, TILE_LENGTH, TILE_OFFSETS, TILE_COUNTS,
}  # fmt: skip
YCC, REVERSED, SEPARATE = 6, 2, 2
# Pillow turns the image upright with a copy of it.
TURNED = 2
# libtiff's decoders' own: Zstandard's window and LZMA's dictionary.
WINDOW_BYTES = {34925: 70_000_000, 50000: 140_000_000}
# Metadata as it was read, as values and as values once more.
METADATA_COPIES = 3


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the image is cut: parts (strips or tiles), pixels of all of them, bytes of all and of one, unpacked."""

    parts: int
    pixels: int
    unpacked: int
    largest: int


def read_tiff(data: bytes, meter: Meter) -> Extent | None:
    """Spend what the first image costs; its extent, None for a header that is none.

    Raises MalformedRequest where the entries that say how pixels lie stand twice.
    """
    directory = read_directory(data, meter)
    if directory is None:
        return None
    if directory.repeated & LAYOUT:
        raise MalformedRequest("The TIFF file has two entries for the same part of its layout.")
    for tag in NESTED:
        for place in directory.numbers(tag)[:1]:
            read_directory(data, meter, place)
    width, height = max(0, directory.number(WIDTH, 0)), max(0, directory.number(LENGTH, 0))
    meter.check_sides(width, height)
    compression = directory.number(COMPRESSION, RAW)
    layout = _layout(directory, width, height)
    meter.spend(STRIPS, layout.parts)
    if compression != RAW:
        meter.spend(UNKNOWN_TAGS, len(directory.entries) ** 2)
    if directory.number(FILL_ORDER, 1) == REVERSED:
        meter.spend(COPIED_BYTES, layout.parts * len(data))
    slow = directory.number(PHOTOMETRIC, 0) == YCC and (compression != JPEG or directory.number(PLANES, 1) == SEPARATE)
    meter.spend(YCC_PIXELS if slow or compression == OLD_JPEG else PIXELS, layout.pixels)
    scans = _spend_jpegs(data, directory, layout, meter) if compression in JPEGS else 1
    meter.spend(UNPACKING.get(compression, OTHER_UNPACKING), layout.unpacked * scans)
    held = METADATA_COPIES * sum(len(raw) for _, _, raw in directory.entries.values())
    held += layout.largest + (layout.largest if slow else 0) + WINDOW_BYTES.get(compression, 0)
    return Extent(width, height, held + width * height * _pixel_bytes(directory) * TURNED)


def _pixel_bytes(directory: Directory) -> int:
    """Of Pillow's own pixels."""
    bits, samples = max(0, *directory.numbers(BITS), 0), directory.number(SAMPLES, 1)
    return 4 if samples > 1 or bits > 16 else 2 if bits > 8 else 1


def _layout(directory: Directory, width: int, height: int) -> _Layout:
    samples = max(1, directory.number(SAMPLES, 1), directory.count(BITS))
    bits = max(1, *directory.numbers(BITS), 0)
    planes = samples if directory.number(PLANES, 1) == SEPARATE else 1
    if TILE_WIDTH in directory.entries or TILE_LENGTH in directory.entries:
        part_width = max(1, directory.number(TILE_WIDTH, width))
        part_height = max(1, directory.number(TILE_LENGTH, height))
    else:
        rows = directory.number(ROWS_PER_STRIP, height)
        part_width, part_height = max(1, width), min(rows if rows > 0 else height, height) or 1
    parts = -(-width // part_width) * -(-height // part_height)
    stated = max(directory.count(STRIP_OFFSETS), directory.count(TILE_OFFSETS))
    pixels = parts * part_width * part_height
    # A line begins with a byte of its own.
    line_bytes = -(-part_width * bits * samples // 8)
    return _Layout(
        parts=max(parts * planes, stated),
        pixels=pixels,
        unpacked=parts * part_height * line_bytes,
        largest=part_height * line_bytes,
    )


def _spend_jpegs(data: bytes, directory: Directory, layout: _Layout, meter: Meter) -> int:
    """Spend the bytes of the parts' JPEGs; how often, at most, the pixels of a part are gone over."""
    offsets = directory.numbers(STRIP_OFFSETS) or directory.numbers(TILE_OFFSETS)
    counts = directory.numbers(STRIP_COUNTS) or directory.numbers(TILE_COUNTS)
    if len(offsets) != len(counts) or directory.number(COMPRESSION, RAW) == OLD_JPEG:
        offsets, counts = (0,) * layout.parts, (len(data),) * layout.parts
    sizes = [max(0, min(count, len(data))) for count in counts]
    meter.spend(JPEG_BYTES, min(sum(sizes), 4 * layout.unpacked) + max(sizes, default=0))
    meter.spend(COPIED_BYTES, sum(sizes))
    places = zip(offsets, sizes, strict=True)
    return max((data.count(START_OF_SCAN, place, place + size) for place, size in places if place >= 0), default=1) or 1
