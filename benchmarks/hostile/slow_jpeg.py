"""JPEG files that ask for much work or memory: each maker takes how much, and the file stays small."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from unittest.mock import patch

import numpy as np
from PIL import Image, ImageFile

from benchmarks.hostile.pictures import encoded

SIDE = 4000
# All blocks of a run have no coefficients: the symbol of the longest run, and how many blocks it covers.
LONGEST_RUN, RUN_BLOCKS = 0xE0, 32_767
TABLE = bytes(range(1, 65))
BASELINE, PROGRESSIVE, LOSSLESS, ARITHMETIC, ARITHMETIC_PROGRESSIVE = 0xC0, 0xC2, 0xC3, 0xC9, 0xCA
START, END = b"\xff\xd8", b"\xff\xd9"
JFIF = b"JFIF\0\1\1\0\0\1\0\1\0\0"


def segment(marker: int, content: bytes) -> bytes:
    """One segment with its length."""
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


def frame(marker: int, width: int, height: int, components: int, factors: int = 0x11) -> bytes:
    """A start of frame; all components but the first are sampled 1 x 1."""
    parts = b"".join(bytes([number, factors if number == 1 else 0x11, 0]) for number in range(1, components + 1))
    return segment(marker, struct.pack(">BHHB", 8, height, width, components) + parts)


def scan(components: tuple[int, ...], band: tuple[int, int], bits: int, data: bytes) -> bytes:
    """A start of scan and its coded data."""
    ids = b"".join(bytes([number, 0]) for number in components)
    return segment(0xDA, bytes([len(components)]) + ids + bytes([*band, bits])) + data


def codes(kind: int, *symbols: int) -> bytes:
    """A Huffman table of these symbols: 1 bit, 2 bits and so on."""
    counts = [1 if place < len(symbols) else 0 for place in range(16)]
    return segment(0xC4, bytes([kind, *counts, *symbols]))


def packed(bits: str) -> bytes:
    """Bits as bytes, filled up with ones, with a zero behind each 0xFF."""
    bits += "1" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0") if bits else b""


@cache
def _empty_runs(blocks: int) -> bytes:
    return packed(("0" + "1" * 14) * -(-blocks // RUN_BLOCKS))


def scans(count: int, side: int = SIDE, *, refining: bool = False) -> bytes:
    """A progressive file of as many scans, each of which goes over all blocks and changes none."""
    blocks = (-(-side // 8)) ** 2
    zero = scan((1,), (0, 0), 0, packed("0" * blocks))
    one = scan((1,), (1, 63), 0x10 if refining else 1, _empty_runs(blocks))
    tables = codes(0, 0) + codes(0x10, LONGEST_RUN)
    head = START + segment(0xDB, b"\0" + TABLE) + frame(PROGRESSIVE, side, side, 1) + tables
    return head + zero + one * count + END


def refining_of_colours(count: int, side: int = SIDE) -> bytes:
    """A progressive file whose scans refine the mean of all blocks of three components."""
    blocks = (-(-side // 8)) ** 2
    one = scan((1, 2, 3), (0, 0), 0x10, bytes(3 * blocks // 8 + 1))
    head = START + segment(0xDB, b"\0" + TABLE) + frame(PROGRESSIVE, side, side, 3) + codes(0, 0)
    return head + scan((1, 2, 3), (0, 0), 1, bytes(3 * blocks // 8 + 1)) + one * count + END


def means_only(side: int) -> bytes:
    """A progressive file without detail, whose blocks are smoothed."""
    head = START + segment(0xDB, b"\0" + TABLE) + frame(PROGRESSIVE, side, side, 3) + codes(0, 0)
    return head + scan((1, 2, 3), (0, 0), 0, bytes(3 * (-(-side // 8)) ** 2 // 8 + 1)) + END


def arithmetic(side: int, marker: int = ARITHMETIC) -> bytes:
    """Arithmetic coding reads on behind its data."""
    band = (0, 0) if marker == ARITHMETIC_PROGRESSIVE else (0, 63)
    head = START + segment(0xDB, b"\0" + TABLE) + frame(marker, side, side, 1)
    return head + scan((1,), band, 0, b"\x8a" * 40) + END


def lossless(side: int) -> bytes:
    """The lossless process: a difference of nought for each pixel."""
    head = START + frame(LOSSLESS, side, side, 1) + codes(0, 0)
    return head + scan((1,), (1, 0), 0, bytes(side * side // 8 + 1)) + END


@cache
def noise(side: int, *, quality: int = 95, mode: str = "RGB", progressive: bool = False) -> bytes:
    """Noise of so many pixels a side, tiled."""
    tile = np.random.default_rng(1).integers(0, 256, (256, 256, 3), np.uint8)
    pixels = np.tile(tile, (-(-side // 256), -(-side // 256), 1))[:side, :side]
    image = Image.fromarray(pixels).convert(mode)
    # Pillow's encoder holds a whole progressive file at once.
    with patch.object(ImageFile, "MAXBLOCK", 8 * side * side + 65_536):
        return encoded(image, "JPEG", quality=quality, subsampling=0, progressive=progressive)


def _behind_start(content: bytes) -> bytes:
    whole = noise(64)
    return START + content + whole[2:]


def exif_pieces(count: int) -> bytes:
    """Pieces of EXIF, which Pillow appends one by one."""
    return _behind_start(segment(0xE1, b"Exif\0\0" + b"x" * 40) * count)


def exif_fractions(count: int) -> bytes:
    """EXIF whose resolution is many fractions."""
    count = min(count, 8000)
    entry = struct.pack("<HHII", 0x011A, 5, count, 26)
    entries = struct.pack("<HHII", 0x0128, 3, 1, 2)
    head = b"II*\0\x08\0\0\0" + struct.pack("<H", 2) + entry + entries
    head = head[:8] + struct.pack("<H", 2) + struct.pack("<HHII", 0x011A, 5, count, 38) + entries + bytes(4)
    return _behind_start(segment(0xE1, b"Exif\0\0" + head + b"\1\0\0\0\3\0\0\0" * count))


def photoshop(count: int) -> bytes:
    """Photoshop's resource blocks, 5,000 a segment."""
    block = b"8BIM\4\4\0\0\0\0\0\0"
    full, rest = divmod(count, 5000)
    whole = segment(0xED, b"Photoshop 3.0\0" + block * 5000)
    return _behind_start(whole * full + segment(0xED, b"Photoshop 3.0\0" + block * rest))


KINDS: dict[str, Callable[[int], bytes]] = {
    "JPEG of scans": scans,
    "JPEG of scans, small": lambda count: scans(count, 400),
    "JPEG of refining scans": lambda count: scans(count, refining=True),
    "JPEG of refining scans, small": lambda count: scans(count, 400, refining=True),
    "JPEG of refining scans of colours": lambda count: refining_of_colours(count, 2000),
    "JPEG of tiny scans": lambda count: scans(count, 8),
    "JPEG without detail": means_only,
    "JPEG in arithmetic coding": arithmetic,
    "JPEG in progressive arithmetic coding": lambda side: arithmetic(side, ARITHMETIC_PROGRESSIVE),
    "JPEG, lossless": lossless,
    "JPEG of noise": noise,
    "JPEG of finest noise": lambda side: noise(side, quality=100),
    "JPEG of progressive noise": lambda side: noise(side, quality=100, progressive=True),
    "JPEG of inks": lambda side: noise(side, mode="CMYK"),
    "JPEG of comments": lambda count: _behind_start(segment(0xFE, b"") * count),
    "JPEG of application segments": lambda count: _behind_start(segment(0xE5, b"") * count),
    "JPEG of tables": lambda count: _behind_start(segment(0xDB, (b"\0" + TABLE) * 1000) * count),
    "JPEG of single tables": lambda count: _behind_start(segment(0xDB, b"\0" + TABLE) * count),
    "JPEG of codes": lambda count: _behind_start(codes(0, 0) * count),
    "JPEG of restarts": lambda count: _behind_start(b"\xff\xd0" * count),
    "JPEG of escapes": lambda count: _behind_start(b"\xff\0" * count),
    "JPEG of fill": lambda count: _behind_start(b"\xff" * count),
    "JPEG of rubbish": lambda count: _behind_start(segment(0xFE, b"") + bytes(count)),
    "JPEG of empty files": lambda count: (START + END) * count + noise(64),
    "JPEG of pieces of EXIF": exif_pieces,
    "JPEG of fractions": exif_fractions,
    "JPEG of Photoshop blocks": photoshop,
    "JPEG of pieces of a profile": lambda count: _behind_start(segment(0xE2, b"ICC_PROFILE\0\1\1") * count),
}
