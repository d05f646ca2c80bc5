"""PNG and APNG: chunks, what they unpack to, and the image's lines (PNG, third edition, sections 5 and 11)."""

from __future__ import annotations

import re
import zlib

from PIL import PngImagePlugin

from handlers.headers.directory import exif
from handlers.meter import MAX_IMAGE_MEMORY, Extent, Meter, Step

# Pillow reads chunk by chunk in Python.
CHUNKS = Step("chunks", 8_000)
CHUNK_BYTES = Step("bytes of chunks", 4)
# Unpacked once to count and once by Pillow.
UNPACKED_BYTES = Step("bytes of packed text or colour profiles", 10)
# Decoded, kept, and split where it may be EXIF.
TEXT_BYTES = Step("bytes of text", 50)
# EXIF in hexadecimal is split into lines, and each line is an object.
HEXADECIMAL_BYTES = Step("bytes of EXIF", 250)
# Of scan lines: inflated, unfiltered, unpacked.
LINE_BYTES = Step("bytes of pixels", 9)
LINES = Step("lines", 300)
PIXELS = Step("pixels", 6)
INTERLACED_PIXELS = Step("interlaced pixels", 25)

SIGNATURE_BYTES = 8
LENGTH_BYTES, NAME_BYTES, CHECK_BYTES = 4, 4, 4
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
# Deflate's largest ratio.
MOST_UNPACKED = 1032
PASSES = 7
# Text is kept as bytes and as characters of up to four bytes, more than once.
TEXT_COPIES = 6
HEXADECIMAL_COPIES = 50
HEXADECIMAL_HEAD = re.compile(rb"(?:[^\n]*\n){0,3}")
# Pillow's own pixels by colour type, and the two copies that transparency takes.
PIXEL_BYTES = {0: 2, 2: 4, 3: 1, 4: 4, 6: 4}
RAW_EXIF = b"Raw profile type exif"


def read_png(data: bytes, meter: Meter) -> Extent:
    """Spend what the file costs; its extent. A file without a whole header has none, and Pillow refuses it."""
    place, memory = SIGNATURE_BYTES, 0
    width = height = depth = kind = interlaced = 0
    while place + LENGTH_BYTES + NAME_BYTES <= len(data):
        meter.spend(CHUNKS)
        length = int.from_bytes(data[place : place + LENGTH_BYTES], "big")
        name = data[place + LENGTH_BYTES : place + LENGTH_BYTES + NAME_BYTES]
        begin = place + LENGTH_BYTES + NAME_BYTES
        place = begin + length + CHECK_BYTES
        length = min(length, len(data) - begin)
        meter.spend(CHUNK_BYTES, length)
        if name == b"IHDR" and length >= 13:
            # Pillow lets a later header stand over an earlier one: the largest counts.
            sides = int.from_bytes(data[begin : begin + 4], "big"), int.from_bytes(data[begin + 4 : begin + 8], "big")
            width, height = max(width, sides[0]), max(height, sides[1])
            depth, interlaced = max(depth, data[begin + 8]), interlaced or data[begin + 12]
            kind = max(kind, data[begin + 9], key=lambda one: SAMPLES.get(one, 0))
        elif name in {b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"eXIf"}:
            memory += _spend_metadata(name, data[begin : begin + length], meter)
            if memory > MAX_IMAGE_MEMORY:
                break
        elif name == b"IEND":
            break
        else:
            memory += length if name not in {b"IDAT", b"fdAT"} else 0
    meter.check_sides(width, height)
    _spend_lines(width, height, depth * SAMPLES.get(kind, 1), interlaced, meter)
    return Extent(width, height, memory + width * height * PIXEL_BYTES.get(kind, 4))


def _spend_metadata(name: bytes, chunk: bytes, meter: Meter) -> int:
    """Spend one chunk of text, EXIF or a colour profile; the bytes that are held of it."""
    if name == b"eXIf":
        exif(chunk, meter)
        return 2 * len(chunk)
    key, _, rest = chunk.partition(b"\0")
    if name in {b"zTXt", b"iCCP"}:
        rest = _unpacked(rest[1:], meter)
    elif name == b"iTXt":
        packed, text = rest[:1], rest[2:].split(b"\0", 2)[-1]
        rest = _unpacked(text, meter) if packed != b"\0" else text
    if name == b"iCCP":
        return 2 * len(rest)
    meter.spend(TEXT_BYTES, len(rest))
    if key == RAW_EXIF:
        meter.spend(HEXADECIMAL_BYTES, len(rest))
        exif(_from_hexadecimal(rest), meter)
        return HEXADECIMAL_COPIES * len(rest)
    if key == b"exif":
        exif(rest, meter)
    return TEXT_COPIES * len(rest)


def _unpacked(packed: bytes, meter: Meter) -> bytes:
    """What zlib makes of it, at most as much as Pillow unpacks; nothing where it is broken."""
    most = PngImagePlugin.MAX_TEXT_CHUNK
    meter.spend(UNPACKED_BYTES, min(most, MOST_UNPACKED * len(packed)))
    try:
        return zlib.decompressobj().decompress(packed, most)
    except zlib.error:
        return b""


def _from_hexadecimal(text: bytes) -> bytes:
    """EXIF as ImageMagick writes it: three lines, then digits."""
    try:
        head = HEXADECIMAL_HEAD.match(text)
        return bytes.fromhex(text[head.end() if head else 0 :].replace(b"\n", b"").decode("latin-1"))
    except ValueError:
        return b""


def _spend_lines(width: int, height: int, bits: int, interlaced: int, meter: Meter) -> None:
    """Spend the pixels: each line is inflated, unfiltered and unpacked; interlaced, there are up to 7 times as many."""
    passes = PASSES if interlaced else 1
    meter.spend(LINES, height * passes)
    meter.spend(LINE_BYTES, height * (-(-width * bits // 8) + passes))
    meter.spend(INTERLACED_PIXELS if interlaced else PIXELS, width * height)
