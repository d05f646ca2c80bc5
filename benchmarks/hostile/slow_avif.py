"""AVIF files that ask for much work or memory: each maker takes how much."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from PIL import Image

from benchmarks.hostile.pictures import encoded

FULL = bytes(4)


def box(kind: bytes, *content: bytes) -> bytes:
    """One box."""
    body = b"".join(content)
    return struct.pack(">I", 8 + len(body)) + kind + body


@cache
def saved(side: int, *, noisy: bool = False, height: int = 0, alpha: bool = False, subsampling: str = "4:2:0") -> bytes:
    """As libavif packs noise, or nought."""
    tile = np.random.default_rng(1).integers(0, 256 if noisy else 1, (256, 256, 4 if alpha else 3), np.uint8)
    rows = height or side
    pixels = np.tile(tile, (-(-rows // 256), -(-side // 256), 1))[:rows, :side]
    quality = 95 if noisy else 60
    return encoded(Image.fromarray(pixels), "AVIF", speed=10, quality=quality, subsampling=subsampling)


@cache
def _coded(side: int) -> tuple[bytes, bytes]:
    """The configuration and the coded data of a square."""
    whole = saved(side)
    configured = whole.index(b"av1C")
    return whole[configured + 4 : configured + 8], whole[whole.index(b"mdat") + 4 :]


def built(
    coded: Sequence[bytes],
    configuration: bytes,
    sides: tuple[int, int],
    *,
    more_items: int = 0,
    between: bytes = b"",
    grid: tuple[int, int] | None = None,
) -> bytes:
    """A file of coded items; with `grid`, item 1 puts them together, in columns and rows."""
    first = 2 if grid else 1
    names = [(number, b"av01") for number in range(first, first + len(coded))]
    names += [(60_000 - number, b"mime") for number in range(more_items)]
    names = [(1, b"grid"), *names] if grid else names
    infe = [box(b"infe", b"\2\0\0\0", struct.pack(">HH4s", number, 0, kind), b"\0") for number, kind in names]
    properties = [box(b"ispe", FULL, struct.pack(">II", *sides)), box(b"av1C", configuration)]
    properties.append(box(b"pixi", FULL, b"\3\x08\x08\x08"))
    owned = b"".join(struct.pack(">HB3B", number, 3, 1, 0x82, 3) for number, kind in names if kind != b"mime")
    owners = len(coded) + (grid is not None)
    head = box(b"ftyp", b"avif", bytes(4), b"avifmif1miaf") + between

    def whole(place: int) -> bytes:
        places, at = [], place
        for data in ([_grid(grid, sides)] if grid else []) + list(coded):
            places.append((at, len(data)))
            at += len(data)
        iloc = b"".join(
            struct.pack(">HHHII", number, 0, 1, *where) for (number, _), where in zip(names, places, strict=False)
        )
        parts = [
            box(b"hdlr", FULL, bytes(4), b"pict", bytes(13)),
            box(b"pitm", FULL, struct.pack(">H", 1)),
            box(b"iloc", FULL, struct.pack(">HH", 0x4400, len(places)), iloc),
            box(b"iinf", FULL, struct.pack(">H", len(infe)), *infe),
            box(b"iprp", box(b"ipco", *properties), box(b"ipma", FULL, struct.pack(">I", owners), owned)),
        ]
        if grid:
            cells = struct.pack(f">HH{len(coded)}H", 1, len(coded), *range(first, first + len(coded)))
            parts.append(box(b"iref", FULL, box(b"dimg", cells)))
        return head + box(b"meta", FULL, *parts)

    place = len(whole(0)) + 8
    data = ([_grid(grid, sides)] if grid else []) + list(coded)
    return whole(place) + box(b"mdat", *data)


def _grid(cells: tuple[int, int] | None, sides: tuple[int, int]) -> bytes:
    columns, rows = cells or (1, 1)
    return struct.pack(">BBBBHH", 0, 0, rows - 1, columns - 1, *sides)


def larger_than_stated(side: int) -> bytes:
    """A picture whose coded data are much larger than the file says."""
    configuration, data = _coded(side)
    return built([data], configuration, (16, 16))


def frames(count: int) -> bytes:
    """A picture of as many frames, of which one is shown."""
    configuration, data = _coded(256)
    return built([data * count], configuration, (256, 256))


def items(count: int) -> bytes:
    """A picture and as many items without content."""
    configuration, data = _coded(16)
    return built([data], configuration, (16, 16), more_items=min(count, 50_000))


def loose_boxes(count: int) -> bytes:
    """As many boxes that nobody knows."""
    configuration, data = _coded(16)
    return built([data], configuration, (16, 16), between=box(b"free") * count)


def grid(columns: int) -> bytes:
    """A square of as many squares a side."""
    columns = min(columns, 40)
    configuration, data = _coded(256)
    side = 256 * columns
    return built([data] * columns**2, configuration, (side, side), grid=(columns, columns))


KINDS: dict[str, Callable[[int], bytes]] = {
    "AVIF": saved,
    "AVIF of noise": lambda side: saved(side, noisy=True),
    "AVIF of noise, 4:4:4": lambda side: saved(side, noisy=True, subsampling="4:4:4"),
    "AVIF of alpha": lambda side: saved(side, alpha=True),
    "AVIF larger than stated": larger_than_stated,
    "AVIF of frames": frames,
    "AVIF of items": items,
    "AVIF of boxes": loose_boxes,
    "AVIF of squares": grid,
}
