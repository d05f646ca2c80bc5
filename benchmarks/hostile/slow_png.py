"""PNG, GIF and BMP files that ask for much work or memory: each maker takes how much."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image

from benchmarks.hostile.pictures import encoded

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# What zlib makes small: how much of it is unpacked is what counts.
PACKED_MB = 4_000_000


def chunk(name: bytes, content: bytes) -> bytes:
    """One chunk of a PNG."""
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def header(width: int, height: int, depth: int = 8, kind: int = 0, *, interlaced: bool = False) -> bytes:
    """Signature and header."""
    return SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced))


def with_chunks(name: bytes, content: bytes, count: int) -> bytes:
    """As many equal chunks before one pixel."""
    return header(1, 1) + chunk(name, content) * count + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def with_chunks_behind(name: bytes, content: bytes, count: int) -> bytes:
    """As many equal chunks behind one pixel."""
    return header(1, 1) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(name, content) * count + chunk(b"IEND", b"")


def in_pieces(count: int) -> bytes:
    """A picture whose data come in chunks of a byte."""
    data = zlib.compress(b"\0" + bytes(count), 0)[:count]
    pieces = b"".join(chunk(b"IDAT", data[place : place + 1]) for place in range(len(data)))
    return header(count, 1) + pieces + chunk(b"IEND", b"")


@cache
def _packed_zeros(size: int) -> bytes:
    return zlib.compress(bytes(size), 9)


def empty(width: int, height: int, depth: int, kind: int, *, interlaced: bool = False) -> bytes:
    """A picture of nought, in one colour's smallest file."""
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    size = height * (1 + -(-width * depth * samples // 8))
    size = 2 * size if interlaced else size
    palette = chunk(b"PLTE", bytes(768)) if kind == 3 else b""
    data = header(width, height, depth, kind, interlaced=interlaced) + palette
    return data + chunk(b"IDAT", _packed_zeros(size)) + chunk(b"IEND", b"")


@cache
def _paeth(side: int) -> bytes:
    """Lines of the dearest filter, of noise that repeats."""
    row = b"\4" + np.random.default_rng(1).integers(0, 256, 3 * side, np.uint8).tobytes()
    packer = zlib.compressobj(1)
    return b"".join(packer.compress(row) for _ in range(side)) + packer.flush()


def paeth(side: int) -> bytes:
    """A picture whose lines all have the dearest filter."""
    return header(side, side, 8, 2) + chunk(b"IDAT", _paeth(side)) + chunk(b"IEND", b"")


@cache
def _noise_block() -> bytes:
    return np.random.default_rng(1).integers(0, 16, 1 << 20, np.uint8).tobytes()


def noise(side: int) -> bytes:
    """Noise that is coded symbol by symbol."""
    packer = zlib.compressobj(1, strategy=zlib.Z_HUFFMAN_ONLY)
    size, block = side * (1 + 3 * side), _noise_block()
    body = b"".join(packer.compress(block[: min(len(block), size - at)]) for at in range(0, size, len(block)))
    return header(side, side, 8, 2) + chunk(b"IDAT", body + packer.flush()) + chunk(b"IEND", b"")


def bomb(megabytes: int) -> bytes:
    """Pixels of one line, and megabytes behind them."""
    data = _packed_zeros(min(megabytes, 2000) * 1_000_000)
    return header(1000, 1) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def raw_exif(count: int) -> bytes:
    """EXIF in a text of empty lines."""
    return with_chunks(b"tEXt", b"Raw profile type exif\0" + b"\n" * count, 1)


def exif_numbers(count: int) -> bytes:
    """An orientation of many numbers."""
    entry = struct.pack("<HHII", 0x0112, 3, count, 26)
    return with_chunks(b"eXIf", b"II*\0\x08\0\0\0" + struct.pack("<H", 1) + entry + bytes(4 + 2 * count), 1)


def exif_entries(count: int) -> bytes:
    """A directory of as many entries as one can have."""
    count = min(count, 65_535)
    entries = b"".join(struct.pack("<HHII", number, 4, 1, 0) for number in range(count))
    return with_chunks(b"eXIf", b"II*\0\x08\0\0\0" + struct.pack("<H", count) + entries + bytes(4), 1)


def gif(screen: tuple[int, int], before: bytes = b"", data: bytes = b"\x02\x4c\x01\0") -> bytes:
    """One frame of the screen's size, behind any blocks."""
    sides = struct.pack("<HH", *screen)
    return b"GIF89a" + sides + b"\x80\0\0" + bytes(6) + before + b"," + bytes(4) + sides + b"\0\x02" + data + b";"


def gif_pixels(side: int) -> bytes:
    """As Pillow packs a picture of one colour, with a clear index."""
    return encoded(Image.new("P", (side, side)), "GIF", transparency=0)


def gif_noise(side: int) -> bytes:
    """Noise, as large as may be."""
    tile = np.random.default_rng(1).integers(0, 256, (256, 256), np.uint8)
    return encoded(Image.fromarray(np.tile(tile, (-(-side // 256),) * 2)[:side, :side]), "GIF")


def bmp(width: int, height: int, bits: int, method: int, body: bytes) -> bytes:
    """A bitmap with a palette where it needs one."""
    palette = bytes([1, 2, 3, 0]) * (1 << bits) if bits <= 8 else b""
    start = 54 + len(palette)
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, method, len(body), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", start + len(body), 0, 0, start) + head + palette + body


RUN_LENGTHS_8, RUN_LENGTHS_4 = 1, 2
KINDS: dict[str, Callable[[int], bytes]] = {
    "PNG of colour profiles": lambda count: with_chunks(b"iCCP", b"x\0\0" + _packed_zeros(PACKED_MB), count),
    "PNG of packed text": lambda count: with_chunks(b"zTXt", b"x\0\0" + _packed_zeros(PACKED_MB), count),
    "PNG of packed Unicode": lambda count: with_chunks(
        b"iTXt", b"x\0\1\0\0\0" + zlib.compress(b"\xf0\x9f\x98\x80" * (PACKED_MB // 4)), count
    ),
    "PNG of one large Unicode text": lambda count: with_chunks(
        b"iTXt", b"x\0\0\0\0\0\xf0\x9f\x98\x80" + b"a" * count, 1
    ),
    "PNG of small text": lambda count: with_chunks(b"tEXt", b"x\0", count),
    "PNG of small profiles": lambda count: with_chunks(b"iCCP", b"x\0\0" + _packed_zeros(1), count),
    "PNG of small EXIF": lambda count: with_chunks(b"eXIf", b"", count),
    "PNG of unknown chunks": lambda count: with_chunks(b"abCd", b"", count),
    "PNG of unknown chunks behind": lambda count: with_chunks_behind(b"abCd", b"", count),
    "PNG of text behind": lambda count: with_chunks_behind(b"zTXt", b"x\0\0" + _packed_zeros(PACKED_MB), count),
    "PNG of empty data": lambda count: with_chunks(b"IDAT", b"", count),
    "PNG in pieces": in_pieces,
    "PNG of lines of EXIF": raw_exif,
    "PNG of numbers of EXIF": exif_numbers,
    "PNG of entries of EXIF": exif_entries,
    "PNG bomb": bomb,
    "PNG of 1 bit": lambda side: empty(side, side, 1, 0),
    "PNG of grey": lambda side: empty(side, side, 8, 0),
    "PNG of deep grey": lambda side: empty(side, side, 16, 0),
    "PNG of colours": lambda side: empty(side, side, 8, 2),
    "PNG of palette": lambda side: empty(side, side, 8, 3),
    "PNG of grey and alpha": lambda side: empty(side, side, 8, 4),
    "PNG of alpha": lambda side: empty(side, side, 8, 6),
    "PNG of deep alpha": lambda side: empty(side, side, 16, 6),
    "PNG, interlaced": lambda side: empty(side, side, 8, 6, interlaced=True),
    "PNG, interlaced, 1 bit": lambda side: empty(side, side, 1, 0, interlaced=True),
    "PNG of the dearest filter": paeth,
    "PNG of noise": noise,
    "PNG column": lambda count: empty(1, count, 8, 6),
    "PNG row": lambda count: empty(count, 1, 8, 6),
    "PNG wide column": lambda count: empty(count, 65_535, 8, 2),
    "GIF of blocks": lambda count: gif((1, 1), b"!\xff" + b"\1x" * count + b"\0"),
    "GIF of comments": lambda count: gif((1, 1), b"!\xfe\1x\0" * count),
    "GIF of one comment": lambda count: gif((1, 1), b"!\xfe" + b"\1x" * count + b"\0"),
    "GIF of rubbish": lambda count: gif((1, 1), bytes(count)),
    "GIF of empty data": lambda count: gif((1, 1), b"", b"\1\x24" * count + b"\0"),
    "GIF of pixels": gif_pixels,
    "GIF of noise": gif_noise,
    "BMP of ends of lines": lambda side: bmp(side, side, 8, RUN_LENGTHS_8, b"\1\1\0\0" * side),
    "BMP of runs": lambda side: bmp(side, side, 8, RUN_LENGTHS_8, (b"\1\1" * side + b"\0\0") * side),
    "BMP of runs of 4 bits": lambda side: bmp(
        side, side, 4, RUN_LENGTHS_4, (b"\xff\x11" * -(-side // 255) + b"\0\0") * side
    ),
    "BMP of no runs": lambda count: bmp(20_000, 100, 8, RUN_LENGTHS_8, b"\0\2\0\0" * count),
    "BMP of 1 bit": lambda side: bmp(side, side, 1, 0, bytes(-(-side // 32) * 4 * side)),
    "BMP of 16 bits": lambda side: bmp(side, side, 16, 0, bytes((2 * side + 2) * side)),
}
