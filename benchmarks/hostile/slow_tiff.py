"""TIFF files, and files with colour profiles, that ask for much work or memory: each maker takes how much."""

from __future__ import annotations

import io
import lzma
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from PIL import Image, ImageCms

from benchmarks.hostile.pictures import encoded
from benchmarks.hostile.slow_jpeg import scans

SHORT, LONG, FRACTION = 3, 4, 5
RAW, FAX, LZW, JPEG, DEFLATE, PACKBITS, LZMA = 1, 4, 5, 7, 8, 32773, 34925
GREY, COLOURS, LUMA = 1, 2, 6
Values = Mapping[int, tuple[int, ...]]


def tiff(tags: Values, body: bytes = b"", kinds: Mapping[int, int] | None = None) -> bytes:
    """One directory behind `body`, which lies at byte 8; values are LONG unless `kinds` says otherwise."""
    letters = {1: "B", SHORT: "H", LONG: "I", FRACTION: "I", 6: "b"}
    at = 8 + len(body) + len(body) % 2
    extra_at, extra, entries = at + 2 + 12 * len(tags) + 4, b"", []
    for tag, values in sorted(tags.items()):
        kind = (kinds or {}).get(tag, LONG)
        raw = struct.pack(f"<{len(values)}{letters[kind]}", *values)
        count = len(values) // 2 if kind == FRACTION else len(values)
        if len(raw) > 4:
            place = struct.pack("<I", extra_at + len(extra))
            extra += raw + b"\0" * (len(raw) % 2)
            raw = place
        entries.append(struct.pack("<HHI", tag, kind, count) + raw.ljust(4, b"\0"))
    directory = struct.pack("<H", len(tags)) + b"".join(entries) + bytes(4)
    return b"II*\0" + struct.pack("<I", at) + body.ljust(at - 8, b"\0") + directory + extra


def layout(width: int, height: int, compression: int, samples: int = 1, bits: int = 8, kind: int = GREY) -> Values:
    """The entries of any image but those that say where its pixels lie."""
    return {
        256: (width,), 257: (height,), 258: (bits,) * samples, 259: (compression,), 262: (kind,), 277: (samples,)
    }  # fmt: skip


def strips(count: int, compression: int = RAW) -> bytes:
    """An image of as many strips of one row."""
    body = zlib.compress(bytes(8)) if compression == DEFLATE else bytes(8)
    count = min(count, 60_000)
    own = {273: (8,) * count, 278: (1,), 279: (len(body),) * count}
    return tiff({**layout(8, count, compression), **own}, body)


def listed_strips(count: int) -> bytes:
    """An image of one row, whose directory lists as many strips."""
    return tiff({**layout(8, 1, RAW), 273: (8,) * count, 278: (1,), 279: (8,) * count}, bytes(8))


def one_strip(width: int, height: int, compression: int, body: bytes, *, samples: int = 1, **more: int) -> bytes:
    """An image of one strip."""
    kind = more.pop("kind", COLOURS if samples == 3 else GREY)
    own = {273: (8,), 278: (height,), 279: (len(body),)} | {int(name[1:]): (value,) for name, value in more.items()}
    return tiff({**layout(width, height, compression, samples, more.get("t258", 8), kind), **own}, body)


def tiles(side: int, compression: int, body: bytes, count: int = 1) -> bytes:
    """A small image in tiles that are much larger."""
    own = {322: (side,), 323: (side,), 324: (8,) * count, 325: (len(body),) * count}
    return tiff({**layout(16, 16, compression), **own}, body)


@cache
def _packed(size: int, compression: int) -> bytes:
    if compression == DEFLATE:
        return zlib.compress(bytes(size), 9)
    return lzma.compress(np.random.default_rng(1).integers(0, 256, size, np.uint8).tobytes(), lzma.FORMAT_XZ, preset=0)


@cache
def saved(side: int, compression: str, mode: str, noisy: bool) -> bytes:
    """As libtiff packs noise, or nought."""
    tile = np.random.default_rng(1).integers(0, 256 if noisy else 1, (256, 256, 3), np.uint8)
    pixels = np.tile(tile, (-(-side // 256), -(-side // 256), 1))[:side, :side]
    return encoded(Image.fromarray(pixels).convert(mode), "TIFF", compression=compression)


def scanned(count: int) -> bytes:
    """JPEG of many scans in one strip."""
    body = scans(count, 2000)
    return one_strip(2000, 2000, JPEG, body)


def unknown_tags(count: int) -> bytes:
    """As many entries that nobody knows, of a deflated image."""
    body = zlib.compress(bytes(64))
    own = {**layout(8, 8, DEFLATE), 273: (8,), 278: (8,), 279: (len(body),)}
    return tiff({**own, **{40_000 + number: (1,) for number in range(min(count, 20_000))}}, body)


def numbers(count: int) -> bytes:
    """A directory of EXIF with many numbers."""
    inner = struct.pack("<HHHIII", 1, 40_000, 6, count, 26, 0)
    body = inner + bytes(count)
    own = {**layout(8, 8, RAW), 273: (8,), 278: (8,), 279: (64,), 34665: (8,)}
    return tiff(own, body[:4] + body[4:])


def fractions(count: int) -> bytes:
    """A resolution of many fractions."""
    own = {**layout(8, 8, RAW), 273: (8,), 278: (8,), 279: (64,), 282: (1, 3) * count, 283: (1, 3) * count}
    return tiff(own, bytes(64), {282: FRACTION, 283: FRACTION})


def reversed_bits(height: int) -> bytes:
    """Strips of one row, all of which are the whole file, with their bits reversed."""
    body = zlib.compress(bytes(8)) + bytes(4_000_000)
    count = min(height, 60_000)
    own = {266: (2,), 273: (8,) * count, 278: (1,), 279: (len(body),) * count}
    return tiff({**layout(8, count, DEFLATE), **own}, body)


def with_profile(profile: bytes, mode: str = "RGB") -> bytes:
    """A small picture with this profile."""
    return encoded(Image.new(mode, (64, 64)), "TIFF", icc_profile=profile)


def _profile(space: bytes, tags: Mapping[bytes, bytes], connection: bytes = b"Lab ", kind: bytes = b"prtr") -> bytes:
    place, table, content = 128 + 4 + 12 * len(tags), struct.pack(">I", len(tags)), b""
    for name, value in tags.items():
        table += name + struct.pack(">II", place + len(content), len(value))
        content += value + b"\0" * (-len(value) % 4)
    head = struct.pack(">I4sBxxx4s4s4s", place + len(content), b"", 4, kind, space, connection)
    head += struct.pack(">6H", 2024, 1, 1, 0, 0, 0) + b"acsp" + b"\0" * 28 + struct.pack(">3i", 63190, 65536, 54061)
    return head.ljust(128, b"\0") + table + content


def table_profile(points: int, channels: int) -> bytes:
    """A profile whose table has so many points a side."""
    grid = np.random.default_rng(1).integers(0, 256, points**channels * 3, np.uint8).tobytes()
    matrix = struct.pack(">9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 65536)
    line = bytes(range(256))
    table = b"mft1\0\0\0\0" + bytes([channels, 3, points, 0]) + matrix + line * channels + grid + line * 3
    return _profile(b"RGB " if channels == 3 else b"CMYK", {b"A2B0": table})


def curve_profile(entries: int) -> bytes:
    """A profile of a matrix and long curves."""
    curve = b"curv\0\0\0\0" + struct.pack(">I", entries) + np.linspace(0, 65535, entries).astype(">u2").tobytes()
    columns = {name: b"XYZ \0\0\0\0" + struct.pack(">3i", 9000, 9000, 9000) for name in (b"rXYZ", b"gXYZ", b"bXYZ")}
    return _profile(b"RGB ", {**columns, **dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve)}, b"XYZ ", b"mntr")


def usual_profile(_: int = 0) -> bytes:
    """The profile of most files."""
    return with_profile(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())


def two_channel_noise(side: int) -> bytes:
    """Fax codes of pixels that alternate."""
    pixels = np.random.default_rng(1).integers(0, 2, (256, 256), np.uint8) * 255
    image = Image.fromarray(np.tile(pixels, (-(-side // 256), -(-side // 256)))[:side, :side]).convert("1")
    stream = io.BytesIO()
    image.save(stream, "TIFF", compression="group4")
    return stream.getvalue()


KINDS: dict[str, Callable[[int], bytes]] = {
    "TIFF of strips": strips,
    "TIFF of deflated strips": lambda count: strips(count, DEFLATE),
    "TIFF of listed strips": listed_strips,
    "TIFF of entries": unknown_tags,
    "TIFF of numbers": numbers,
    "TIFF of fractions": fractions,
    "TIFF of reversed bits": reversed_bits,
    "TIFF of large tiles": lambda side: tiles(side, DEFLATE, _packed(side * side, DEFLATE)),
    "TIFF, deflated": lambda side: one_strip(side, side, DEFLATE, _packed(3 * side * side, DEFLATE), samples=3),
    "TIFF, deflated, deep": lambda side: one_strip(side, side, DEFLATE, _packed(2 * side * side, DEFLATE), t258=16),
    "TIFF, deflated, luma": lambda side: one_strip(
        side, side, DEFLATE, _packed(3 * side * side, DEFLATE), samples=3, kind=LUMA, t530=1
    ),
    "TIFF, LZMA noise": lambda side: one_strip(side, side, LZMA, _packed(side * side, LZMA)),
    "TIFF of scans": scanned,
    "TIFF of fax noise": two_channel_noise,
    "TIFF of raw pixels": lambda side: saved(side, "raw", "RGB", False),
    "TIFF of LZW noise": lambda side: saved(side, "tiff_lzw", "RGB", True),
    "TIFF of LZW": lambda side: saved(side, "tiff_lzw", "RGB", False),
    "TIFF of run lengths": lambda side: saved(side, "packbits", "RGB", False),
    "TIFF of JPEG": lambda side: saved(side, "jpeg", "RGB", True),
    "TIFF of Zstandard": lambda side: saved(side, "zstd", "RGB", True),
    "TIFF of inks": lambda side: saved(side, "tiff_lzw", "CMYK", False),
    "TIFF of Lab": lambda side: saved(side, "tiff_adobe_deflate", "LAB", False),
    "profile of a table": lambda points: with_profile(table_profile(min(points, 109), 3)),
    "profile of inks": lambda points: with_profile(table_profile(min(points, 33), 4), "CMYK"),
    "profile of curves": lambda entries: with_profile(curve_profile(min(entries, 600_000))),
    "usual profile": usual_profile,
}
