"""WebP files that ask for much work or memory: each maker takes how much."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image

from benchmarks.hostile.pictures import encoded

# Of lossless data (RFC 9649): the order of the lengths of codes' lengths, and blocks that have a group of codes.
LENGTHS_ORDER = (17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8)
BLOCK, COLUMNS, MOST_ROWS = 4, 256, 256
GREENS, REDS = 280, 256


def webp_frames(count: int) -> bytes:
    """An animation of as many empty frames."""
    one = b"VP8L" + struct.pack("<I", 12) + b"\x2f\0\0\0\0\x08\x88\x88\x08\0\0\0"
    anmf = bytes(16) + one
    body = b"VP8X" + struct.pack("<I", 10) + b"\x02\0\0\0" + bytes(6) + b"ANIM" + struct.pack("<I", 6) + bytes(6)
    body += (b"ANMF" + struct.pack("<I", len(anmf)) + anmf) * count
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def webp_chunks(count: int) -> bytes:
    """A picture and as many empty chunks that nobody knows."""
    body = encoded(Image.new("RGB", (8, 8)), "WEBP", lossless=True)[12:]
    body = b"VP8X" + struct.pack("<I", 10) + bytes(4) + b"\x07\0\0\x07\0\0" + body + b"abcd\0\0\0\0" * count
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


@cache
def webp(side: int, lossless: bool, noisy: bool) -> bytes:
    """A picture as libwebp packs it."""
    tile = np.random.default_rng(1).integers(0, 256 if noisy else 1, (256, 256, 4), np.uint8)
    pixels = np.tile(tile, (-(-side // 256), -(-side // 256), 1))[:side, :side]
    return encoded(Image.fromarray(pixels), "WEBP", lossless=lossless, quality=100 if noisy else 50, method=0)


class _Bits:
    """Writes numbers from their least significant bit on."""

    def __init__(self) -> None:
        self._bits: list[int] = []

    def put(self, value: int, count: int) -> None:
        """So many bits of a value."""
        self._bits += [value >> place & 1 for place in range(count)]

    def bytes(self) -> bytes:
        """What was written, filled up, and as much as decoders read ahead."""
        return np.packbits(np.array(self._bits, np.uint8), bitorder="little").tobytes() + b"\0" * 16

    def one_symbol(self) -> None:
        """A code of one symbol, which takes no bits."""
        self.put(1, 4)

    def equal_codes(self, symbols: int) -> None:
        """A code whose first 256 symbols take eight bits each."""
        self.put(0, 1)
        self.put(len(LENGTHS_ORDER) - 4, 4)
        for length in LENGTHS_ORDER:
            self.put(int(length in {0, 8}), 3)
        self.put(0, 1)
        for symbol in range(symbols):
            self.put(int(symbol < 256), 1)


def webp_groups(rows: int) -> bytes:
    """A lossless picture, each of whose blocks has a group of codes of its own."""
    rows = min(rows, MOST_ROWS)
    bits = _Bits()
    bits.put(COLUMNS * BLOCK - 1, 14)
    bits.put(rows * BLOCK - 1, 14)
    # No alpha, version 0, no transform, no colour cache; then groups for blocks of 4 x 4, in a picture without a cache.
    for value, count in ((0, 1), (0, 3), (0, 1), (0, 1), (1, 1), (0, 3), (0, 1)):
        bits.put(value, count)
    bits.equal_codes(GREENS)
    bits.equal_codes(REDS)
    for _ in range(3):
        bits.one_symbol()
    reversed_bits = [int(f"{value:08b}"[::-1], 2) for value in range(256)]
    for row in range(rows):
        for column in range(COLUMNS):
            bits.put(reversed_bits[column], 8)
            bits.put(reversed_bits[row], 8)
    for _ in range(5 * rows * COLUMNS):
        bits.one_symbol()
    body = b"\x2f" + bits.bytes()
    body += b"\0" * (len(body) % 2)
    return b"RIFF" + struct.pack("<I", 12 + len(body)) + b"WEBP" + b"VP8L" + struct.pack("<I", len(body)) + body


KINDS: dict[str, Callable[[int], bytes]] = {
    "WebP of frames": webp_frames,
    "WebP of chunks": webp_chunks,
    "WebP, lossy": lambda side: webp(side, lossless=False, noisy=False),
    "WebP, lossy noise": lambda side: webp(side, lossless=False, noisy=True),
    "WebP, lossless": lambda side: webp(side, lossless=True, noisy=False),
    "WebP, lossless noise": lambda side: webp(side, lossless=True, noisy=True),
    "WebP of groups of codes": webp_groups,
}
