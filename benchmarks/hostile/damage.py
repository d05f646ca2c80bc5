"""Image files that hurt: broken, cut, bombs, and files of other kinds; each with the statuses that it may end in."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from random import Random

from PIL import Image

from benchmarks.hostile.case import MALFORMED, OK, TOO_LARGE, UNPROCESSABLE, UNSUPPORTED, Outcome, canary
from benchmarks.hostile.contract import MAX_IMAGE_BYTES
from benchmarks.hostile.pictures import Picture, album, encoded

Made = tuple[bytes, Outcome]

MOST_FLIPS = 20
HEAD_BYTES = 80
# A file cut here or before has lost pixels, whatever stands at the end of its format.
LARGEST_CUT = 0.9
LARGEST_SIDE = 8000
FOREIGN = (
    b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(%pipe%id) (w) file\n",
    b"%PDF-1.7\n1 0 obj<</Type/Catalog>>endobj\n",
    b"P6\n9 9\n255\n" + b"x" * 243,
    b"<!DOCTYPE html><html><script>alert(1)</script></html>",
    b"\x7fELF\x02\x01\x01" + b"\0" * 99,
    b"push graphic-context\nfill 'url(https://example.org/\"|id\")'\n",
    b"8BPS\0\1" + b"\0" * 40,
    b"\0\0\1\0\1\0\xff\xff\0\0\1\0\x18\0" + b"\xff" * 60,
    b"\x97JB2\r\n\x1a\n" + b"\xff" * 40,
    b"\0\0\0\x0cjP  \r\n\x87\n" + b"\xff" * 40,
    b"\x80\x04\x95cos\nsystem\n(S'id'\ntR.",
)


def _damaged(picture: Picture) -> Outcome:
    """Whatever bits are wrong: a picture, no picture, one of too many pixels, or of another kind."""
    other = picture.format in {"TIFF", "AVIF"}  # floating-point pixels, and HEIC
    return Outcome.of(OK, MALFORMED, TOO_LARGE, *([UNSUPPORTED] if other else []))


def _flipped(rng: Random, head: bool) -> Made:
    picture = rng.choice(album())
    data = bytearray(picture.data)
    for _ in range(rng.randint(1, MOST_FLIPS)):
        place = rng.randrange(min(len(data), HEAD_BYTES) if head else len(data))
        data[place] = rng.choice((data[place] ^ 1 << rng.randrange(8), rng.randrange(256), 0, 255))
    return bytes(data), _damaged(picture)


def _cut(rng: Random) -> Made:
    picture = rng.choice([picture for picture in album() if picture.cuttable])
    data = picture.data[: int(rng.random() * LARGEST_CUT * len(picture.data))]
    return data, Outcome.of(MALFORMED if data else UNPROCESSABLE)


def _spliced(rng: Random) -> Made:
    one, other = rng.sample(album(), 2)
    data = one.data[: rng.randrange(8, len(one.data))] + other.data[rng.randrange(len(other.data)) :]
    return data, Outcome(_damaged(one).statuses | _damaged(other).statuses)


def _polyglot(rng: Random) -> Made:
    """A picture is what its start says, whatever follows: JPEG, PNG and GIF end by themselves."""
    picture = rng.choice([picture for picture in album() if picture.format in {"JPEG", "PNG", "GIF"}])
    behind = rng.choice((*FOREIGN, archive(), rng.randbytes(rng.randint(1, 5000))))
    return picture.data + behind, Outcome(frozenset({OK}), picture.name)


def _rubbish_segment(rng: Random) -> Made:
    """Rubbish as EXIF, ICC profile or comment of a JPEG changes nothing that is seen."""
    picture = next(picture for picture in album() if picture.name == "JPEG 48x40")
    marker, start = rng.choice(((0xE1, b"Exif\0\0"), (0xE2, b"ICC_PROFILE\0\1\1"), (0xFE, b""), (0xE1, b"http://ns")))
    content = start + canary(rng).encode() + rng.randbytes(rng.randint(0, 60_000))
    segment = struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content
    return picture.data[:2] + segment + picture.data[2:], Outcome(frozenset({OK}), picture.name)


def png(width: int, height: int, *chunks: tuple[bytes, bytes], pixels: bytes = b"\0\0") -> bytes:
    """A grey PNG that claims this size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(pixels)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts
    )


def _giant(rng: Random) -> Made:
    """Gigapixels in a few bytes."""
    width, height = rng.choice(((50_000, 50_000), (65_535, 65_535), (8001, 8000), (60_000, 1100)))
    sides = struct.pack("<HH", width, height)
    dib = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    frame = struct.pack(">HBHHB", 17, 8, height, width, 3)
    tags = [(256, width), (257, height), (258, 8), (259, 1), (262, 1), (273, 8), (277, 1), (278, height), (279, 9)]
    directory = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    data = rng.choice(
        (
            png(width, height),
            b"GIF89a" + sides + b"\x80\0\0" + bytes(6) + b"," + bytes(4) + sides + b"\0\2\2\x4c\1\0;",
            b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + dib,
            b"\xff\xd8\xff\xc0" + frame + b"\1\x11\0\2\x11\0\3\x11\0\xff\xda\0\x0c\3\1\0\2\0\3\0\0\x3f\0" + bytes(99),
            b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + directory + bytes(20),
        )
    )
    return data, Outcome.of(TOO_LARGE)


def _bomb_chunk(rng: Random) -> Made:
    """Megabytes of text or colour profile in a small PNG."""
    packed = _zeros()
    name, start = rng.choice(((b"zTXt", b"x\0\0"), (b"iCCP", b"x\0\0"), (b"iTXt", b"x\0\1\0\0\0")))
    return png(1, 1, (name, start + packed)), Outcome.of(OK, MALFORMED)


@cache
def _zeros() -> bytes:
    return zlib.compress(bytes(100_000_000), 9)


@cache
def _largest() -> bytes:
    """As many pixels as one image may have, in a few kilobytes."""
    return encoded(Image.new("1", (LARGEST_SIDE, LARGEST_SIDE)), "PNG")


@cache
def archive() -> bytes:
    """A zip bomb, as any upload may be one."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as zip_file:
        zip_file.writestr("x", bytes(10_000_000))
    return stream.getvalue()


@cache
def _oversized() -> bytes:
    return b"\xff\xd8\xff" + bytes(MAX_IMAGE_BYTES)


def _foreign(rng: Random) -> Made:
    data = rng.choice((*FOREIGN, archive(), gzip.compress(b"x" * 99, mtime=0), rng.randbytes(rng.randint(1, 3000))))
    return data, Outcome.of(MALFORMED)


def _floats(rng: Random) -> Made:
    image = Image.new("F", (rng.randint(1, 40), 20), rng.choice((0.5, 1e30, -1.0)))
    return encoded(image, "TIFF"), Outcome.of(UNSUPPORTED)


MAKERS: dict[str, tuple[float, Callable[[Random], Made]]] = {
    "flipped bits": (12, lambda rng: _flipped(rng, head=False)),
    "flipped bits in the header": (10, lambda rng: _flipped(rng, head=True)),
    "cut picture": (16, _cut),
    "spliced pictures": (8, _spliced),
    "polyglot": (3, _polyglot),
    "rubbish segment": (4, _rubbish_segment),
    "gigapixels": (8, _giant),
    "bomb in a chunk": (3, _bomb_chunk),
    "another kind of file": (12, _foreign),
    "floating-point pixels": (2, _floats),
    "nothing": (1, lambda _: (b"", Outcome.of(UNPROCESSABLE))),
    "largest picture allowed": (0.1, lambda _: (_largest(), Outcome.of(OK))),
    "file too large": (0.05, lambda _: (_oversized(), Outcome.of(TOO_LARGE))),
}


def hostile_picture(rng: Random) -> tuple[str, bytes, Outcome]:
    """A kind, a file of it, and the statuses that it may end in."""
    kind = rng.choices(list(MAKERS), [weight for weight, _ in MAKERS.values()])[0]
    return kind, *MAKERS[kind][1](rng)
