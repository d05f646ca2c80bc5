"""WebP: chunks, and the frame that is decoded (RFC 9649)."""

from __future__ import annotations

from collections.abc import Iterator

from handlers.headers.directory import exif
from handlers.meter import Extent, Meter, Step

CHUNKS = Step("chunks", 6_000)
CODED_BYTES = Step("bytes of coded pixels", 60)
COPIED_BYTES = Step("bytes", 2)
LOSSY_PIXELS = Step("pixels", 30)
LOSSLESS_PIXELS = Step("losslessly coded pixels", 40)
# Of lossless data, a table for each of up to 65,536 groups of codes.
GROUPS = Step("groups of codes", 12_000)

RIFF_BYTES, CHUNK_BYTES = 12, 8
FRAME_HEADER_BYTES = 16
LOSSLESS_SIGN = 0x2F
# libwebp's canvas, the canvas before it, a copy for Python and Pillow's own pixels, four bytes each.
PIXEL_BYTES = 16
MOST_GROUPS = 65_536
# The smallest codes of a group take 20 bits; its tables take 5.7 KB.
GROUP_BITS, GROUP_BYTES = 20, 5_700
# Of a pixel while there are tables: the canvas and the lossless decoder's own. The rest comes when they are gone.
UNPACKED_BYTES = 8
# Pixels that share a group at least: tiles of 4 x 4.
GROUP_SIDE = 4
CODED = {b"VP8 ", b"VP8L", b"ALPH"}


def read_webp(data: bytes, meter: Meter) -> Extent:
    """Spend what the file costs; the extent of its canvas."""
    meter.spend(COPIED_BYTES, len(data))
    width = height = groups = lossless = coded = 0
    for name, begin, length in _chunks(data, RIFF_BYTES, len(data), meter):
        inner = [(name, begin, length)]
        if name == b"ANMF":
            inner = list(_chunks(data, begin + FRAME_HEADER_BYTES, begin + length, meter))
        for kind, at, size in inner:
            if kind == b"EXIF":
                exif(data[at : at + size], meter)
            sides = _sides(kind, data[at : at + 10])
            width, height = max(width, sides[0]), max(height, sides[1])
            if kind in CODED:
                coded = max(coded, size)
            if kind in {b"VP8L", b"ALPH"}:
                lossless += 1
                groups = max(groups, size * 8 // GROUP_BITS)
    meter.check_sides(width, height)
    blocks = -(-width // GROUP_SIDE) * -(-height // GROUP_SIDE)
    meter.spend(CODED_BYTES, coded * (2 if lossless else 1))
    groups = min(groups, MOST_GROUPS, blocks)
    meter.spend(GROUPS, groups)
    meter.spend(LOSSLESS_PIXELS if lossless else LOSSY_PIXELS, width * height)
    pixels = width * height
    held = max(pixels * PIXEL_BYTES, pixels * UNPACKED_BYTES + groups * GROUP_BYTES)
    return Extent(width, height, held + 2 * len(data))


def _chunks(data: bytes, place: int, end: int, meter: Meter) -> Iterator[tuple[bytes, int, int]]:
    """Each chunk's name, and where its content begins and how long it is; a chunk of odd length has a byte more."""
    while place + CHUNK_BYTES <= min(end, len(data)):
        meter.spend(CHUNKS)
        length = int.from_bytes(data[place + 4 : place + 8], "little")
        yield data[place : place + 4], place + CHUNK_BYTES, min(length, len(data) - place - CHUNK_BYTES)
        place += CHUNK_BYTES + length + length % 2


def _sides(name: bytes, head: bytes) -> tuple[int, int]:
    """Width and height where a chunk of this name states them."""
    if name == b"VP8X":
        return 1 + int.from_bytes(head[4:7], "little"), 1 + int.from_bytes(head[7:10], "little")
    if name == b"VP8 ":
        return int.from_bytes(head[6:8], "little") & 0x3FFF, int.from_bytes(head[8:10], "little") & 0x3FFF
    if name == b"VP8L" and head[:1] == bytes([LOSSLESS_SIGN]):
        bits = int.from_bytes(head[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return 0, 0
