"""Pictures to test with, and files that no encoder at hand would write."""

import io
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

RED, CYAN, BLACK, WHITE = (255, 0, 0), (0, 255, 255), (0, 0, 0), (255, 255, 255)
# Columns (red, green, blue) of X, Y, Z under the white of ICC's connection space, D50.
SRGB_PRIMARIES = ((0.4360, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7141))
P3_PRIMARIES = ((0.5151, 0.2412, -0.0011), (0.2919, 0.6922, 0.0419), (0.1572, 0.0666, 0.7841))
D50 = (0.9642, 1.0, 0.8249)
# IEC 61966-2-1 as ICC's parametric curve of type 3.
SRGB_CURVE = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)


def picture(width: int, height: int, seed: int = 5) -> Image.Image:
    """Noise, enlarged: smooth and sharp at once, and no two corners alike."""
    noise = np.random.default_rng(seed).integers(0, 256, (max(2, height // 3), max(2, width // 3), 3), np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BILINEAR)


def grey(value: int) -> tuple[int, int, int]:
    return (value, value, value)


def encode(image: Image.Image, file_format: str = "PNG", **options: Any) -> bytes:
    """The image as a file."""
    stream = io.BytesIO()
    image.save(stream, file_format, **options)
    return stream.getvalue()


def png(
    size: tuple[int, int],
    depth: int,
    colour_type: int,
    rows: Iterable[bytes],
    chunks: Sequence[tuple[bytes, bytes]] = (),
    *,
    interlaced: bool = False,
    end: bool = True,
) -> bytes:
    """A PNG of unfiltered scan lines (with `interlaced`, of Adam7's), and `chunks` before them."""
    header = struct.pack(">IIBBBBB", *size, depth, colour_type, 0, 0, interlaced)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    parts = [(b"IHDR", header), *chunks, (b"IDAT", data), *([(b"IEND", b"")] if end else [])]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts
    )


def gif(screen: tuple[int, int], box: tuple[int, int, int, int], indices: int, transparent: int | None = None) -> bytes:
    """One frame of two pixels in a palette of red, cyan, black and white; the code words are LZW's of `indices`."""
    control = b"" if transparent is None else b"!\xf9\4\1\0\0" + bytes([transparent]) + b"\0"
    words = 4 | indices << 3 | 5 << 9  # clear, two pixels, end: three bits each
    image = b"," + struct.pack("<4HB", *box, 0) + b"\2\2" + struct.pack("<H", words) + b"\0"
    palette = bytes([*RED, *CYAN, *BLACK, *WHITE])
    return b"GIF89a" + struct.pack("<HHBBB", *screen, 0x91, 0, 0) + palette + control + image + b";"


def tiff(order: str, tags: dict[int, tuple[int, ...]], body: bytes) -> bytes:
    """One page; `body` lies at byte 8."""
    tags = {**tags, 256: tags.get(256, (4,)), 257: tags.get(257, (1,))}
    after = 8 + len(body) + len(body) % 2
    extra_at, extra, entries = after + 2 + 12 * len(tags) + 4, b"", b""
    for tag, values in sorted(tags.items()):
        packed = struct.pack(f"{order}{len(values)}I", *values)
        if len(values) > 1:
            extra, packed = extra + packed, struct.pack(f"{order}I", extra_at + len(extra))
        entries += struct.pack(f"{order}HHI", tag, 4, len(values)) + packed
    start = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", after)
    return start + body.ljust(after - 8, b"\0") + struct.pack(f"{order}H", len(tags)) + entries + b"\0" * 4 + extra


def strip(bits: tuple[int, ...], kind: int, length: int, **more: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    """The tags of one uncompressed strip of `length` bytes and one row; `kind` is the photometric interpretation."""
    tags = {258: bits, 259: (1,), 262: (kind,), 273: (8,), 277: (len(bits),), 278: (1,), 279: (length,)}
    return {**tags, **{int(name[1:]): value for name, value in more.items()}}


def rgb_profile(primaries: Sequence[Sequence[float]] = SRGB_PRIMARIES, curve: Sequence[float] = SRGB_CURVE) -> bytes:
    """A screen's ICC profile: a matrix and one parametric curve."""
    columns = {name: _xyz(xyz) for name, xyz in zip((b"rXYZ", b"gXYZ", b"bXYZ"), primaries, strict=True)}
    return icc_profile(b"RGB ", {**columns, **dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), _curve(curve))})


def grey_profile(gamma: float) -> bytes:
    """A grey ICC profile: light = level ** gamma."""
    return icc_profile(b"GRAY", {b"kTRC": b"para\0\0\0\0\0\0\0\0" + _fixed([gamma])})


def ink_profile(lightness: Mapping[tuple[int, ...], int]) -> bytes:
    """A CMYK ICC profile whose paper is white and whose inks, at full strength, have the L* x 255 / 100 given.

    All colours are neutral: the answer is known without LittleCMS.
    """
    corners = [tuple(corner >> bit & 1 for bit in (3, 2, 1, 0)) for corner in range(16)]
    grid = b"".join(bytes([lightness[corner], 128, 128]) for corner in corners)
    line = bytes(range(256))
    table = b"mft1\0\0\0\0" + bytes([4, 3, 2, 0]) + _fixed([1, 0, 0, 0, 1, 0, 0, 0, 1]) + line * 4 + grid + line * 3
    return icc_profile(b"CMYK", {b"A2B0": table}, connection=b"Lab ", kind=b"prtr")


def icc_profile(
    space: bytes, tags: Mapping[bytes, bytes], connection: bytes = b"XYZ ", kind: bytes = b"mntr", version: int = 4
) -> bytes:
    """An ICC profile of these tags and a white point (ICC.1:2022, 7)."""
    tags = {**tags, b"wtpt": _xyz(D50)}
    place, table, content = 128 + 4 + 12 * len(tags), struct.pack(">I", len(tags)), b""
    for name, value in tags.items():
        padded = value + b"\0" * (-len(value) % 4)
        table += name + struct.pack(">II", place + len(content), len(value))
        content += padded
    header = struct.pack(">I4sBxxx4s4s4s", place + len(content), b"", version, kind, space, connection)
    header += struct.pack(">6H", 2024, 1, 1, 0, 0, 0) + b"acsp" + b"\0" * 28 + _fixed(D50)
    return header.ljust(128, b"\0") + table + content


def _xyz(values: Sequence[float]) -> bytes:
    return b"XYZ \0\0\0\0" + _fixed(values)


def _curve(values: Sequence[float]) -> bytes:
    return b"para\0\0\0\0\0\3\0\0" + _fixed(values)


def _fixed(values: Sequence[float]) -> bytes:
    return b"".join(struct.pack(">i", round(value * 65536)) for value in values)
