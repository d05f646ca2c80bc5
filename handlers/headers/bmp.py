"""BMP: sides, bits and run lengths."""

from __future__ import annotations

from handlers.meter import Extent, Meter, Step

# Pillow unpacks run lengths in Python.
RUN_PIXELS = Step("run-length coded pixels", 350)
RUN_BYTES = Step("bytes of run lengths", 1_500)
COLOURS = Step("colours", 600)
HEADER_BYTES = Step("bytes of header", 2)
PIXELS = Step("pixels", 15)

# OS/2's first header has sides of two bytes.
OLD_HEADER = 12
RUN_LENGTHS = (1, 2)
MOST_COLOURS = 65_536
PIXEL_BYTES = 4
# Indices as Python's bytes, twice, and as Pillow's pixels.
RUN_PIXEL_BYTES = 4


def read_bmp(data: bytes, meter: Meter) -> Extent:
    """Spend what the file costs; its extent. A height below zero says that the rows run from the top."""
    header = _number(data, 14, 4)
    meter.spend(HEADER_BYTES, min(header, len(data)))
    if header == OLD_HEADER:
        width, height, bits, method, colours = _number(data, 18, 2), _number(data, 20, 2), _number(data, 24, 2), 0, 0
    else:
        width, height = _number(data, 18, 4), _number(data, 22, 4)
        # As Pillow tells it.
        height = 2**32 - height if data[25:26] == b"\xff" else height
        bits, method, colours = _number(data, 28, 2), _number(data, 30, 4), _number(data, 46, 4)
    meter.check_sides(width, height)
    meter.spend(COLOURS, min(colours or 1 << min(bits, 16), MOST_COLOURS) if bits <= 8 else 0)
    if method in RUN_LENGTHS:
        meter.spend(RUN_BYTES, len(data) // 2)
        meter.spend(RUN_PIXELS, width * height)
        return Extent(width, height, width * height * RUN_PIXEL_BYTES)
    meter.spend(PIXELS, width * height)
    return Extent(width, height, width * height * (PIXEL_BYTES if bits > 8 else 1))


def _number(data: bytes, place: int, size: int) -> int:
    return int.from_bytes(data[place : place + size], "little")
