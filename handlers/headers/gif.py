"""GIF: what stands before the first image, and that image's pixels (GIF89a)."""

from __future__ import annotations

import re

from handlers.meter import Extent, Meter, Step

# Pillow reads extensions block by block, and what is none of them byte by byte, in Python.
EXTENSIONS = Step("blocks before its first frame", 3_000)
BLOCKS = Step("blocks before its first frame", 2_000)
STRAY_BYTES = Step("bytes between its blocks", 400)
PALETTE_ENTRIES = Step("colours", 500)
CODED_BYTES = Step("bytes of coded pixels", 25)
PIXELS = Step("pixels", 10)

HEADER_BYTES = 13
EXTENSION, IMAGE, END = 0x21, 0x2C, 0x3B
INTRODUCERS = re.compile(rb"[!,;]")
IMAGE_BYTES = 9
HAS_PALETTE = 0x80
# An index of each pixel, of what the frame leaves behind, and a frame that is filled first.
PIXEL_BYTES = 3


def read_gif(data: bytes, meter: Meter) -> Extent:
    """Spend what the first frame costs; the extent of the screen or, where it is larger, of the frame."""
    width, height = _word(data, 6), _word(data, 8)
    place = HEADER_BYTES + _palette_bytes(data, 10, meter)
    while match := INTRODUCERS.search(data, place):
        meter.spend(STRAY_BYTES, match.start() - place)
        place = match.end()
        introducer = data[match.start()]
        if introducer == EXTENSION:
            place = _after_blocks(data, place + 1, meter)
            continue
        if introducer == IMAGE:
            width = max(width, _word(data, place) + _word(data, place + 4))
            height = max(height, _word(data, place + 2) + _word(data, place + 6))
            place += IMAGE_BYTES + _palette_bytes(data, place + 8, meter)
            meter.spend(CODED_BYTES, max(0, len(data) - place))
        break
    else:
        meter.spend(STRAY_BYTES, max(0, len(data) - place))
    meter.check_sides(width, height)
    meter.spend(PIXELS, width * height)
    return Extent(width, height, width * height * PIXEL_BYTES)


def _word(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 2], "little")


def _palette_bytes(data: bytes, place: int, meter: Meter) -> int:
    """The size of the colour table that the flags at `place` state."""
    flags = data[place] if place < len(data) else 0
    if not flags & HAS_PALETTE:
        return 0
    colours = 2 << (flags & 7)
    meter.spend(PALETTE_ENTRIES, colours)
    return 3 * colours


def _after_blocks(data: bytes, place: int, meter: Meter) -> int:
    """Where the blocks of an extension end. Spends each before it steps over it."""
    meter.spend(EXTENSIONS)
    while place < len(data):
        meter.spend(BLOCKS)
        if not data[place]:
            return place + 1
        place += 1 + data[place]
    return place
