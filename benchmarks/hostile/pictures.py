"""Image files: whole ones of every format and mode that Pillow writes, whose answers are asked for alone first."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, ImageCms

SEED = 1
SIDES = ((48, 40), (200, 140), (33, 97))
COMPRESSIONS = ("raw", "tiff_lzw", "tiff_deflate", "packbits", "tiff_adobe_deflate", "jpeg")
ORIENTATION = 0x0112
SLIVERS = ((1, 1), (1, 2), (2, 1), (1, 65_535), (65_535, 1), (3, 20_000))


@dataclass(frozen=True, slots=True)
class Picture:
    """A whole image file; `cuttable` where a file that ends early has lost pixels of its first frame."""

    name: str
    format: str
    data: bytes
    cuttable: bool = True


def _noise(width: int, height: int, seed: int = SEED) -> Image.Image:
    """Noise, enlarged, so that it is smooth and sharp at once."""
    coarse = np.random.default_rng(seed).integers(0, 256, (max(2, height // 6), max(2, width // 6), 3), np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def encoded(image: Image.Image, file_format: str, **options: Any) -> bytes:
    """The image as a file."""
    stream = io.BytesIO()
    image.save(stream, file_format, **options)
    return stream.getvalue()


@cache
def album() -> tuple[Picture, ...]:
    """Every whole file, the same in each run."""
    return tuple(_album())


def _album() -> Iterator[Picture]:
    for seed, (width, height) in enumerate(SIDES):
        image = _noise(width, height, seed)
        for file_format in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"):
            yield Picture(f"{file_format} {width}x{height}", file_format, encoded(image, file_format))
    yield from _jpegs()
    yield from _modes()
    yield from _frames()
    for width, height in SLIVERS:
        yield Picture(
            f"PNG {width}x{height}", "PNG", encoded(Image.new("RGB", (width, height), "orange"), "PNG"), False
        )


def _jpegs() -> Iterator[Picture]:
    image = _noise(90, 70)
    options: dict[str, dict[str, Any]] = {
        "progressive": {"progressive": True},
        "4:4:4": {"subsampling": 0},
        "worst": {"quality": 1},
        "with a profile": {"icc_profile": ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()},
    }
    for name, option in options.items():
        yield Picture(f"JPEG {name}", "JPEG", encoded(image, "JPEG", **option))
    for mode in ("L", "CMYK"):
        yield Picture(f"JPEG {mode}", "JPEG", encoded(image.convert(mode), "JPEG"))
    for orientation in range(10):
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        yield Picture(f"JPEG orientation {orientation}", "JPEG", encoded(image, "JPEG", exif=exif))


def _modes() -> Iterator[Picture]:
    image = _noise(70, 50)
    clear = image.copy()
    clear.putalpha(image.convert("L"))
    deep = Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
    for mode, source in {"1": image, "L": image, "P": image, "LA": clear, "RGBA": clear, "I;16": deep}.items():
        converted = source if mode == "I;16" else source.convert(mode)
        yield Picture(f"PNG {mode}", "PNG", encoded(converted, "PNG"))
        if mode != "1":
            yield Picture(f"TIFF {mode}", "TIFF", encoded(converted, "TIFF"))
    yield Picture("PNG with a clear colour", "PNG", encoded(image.convert("P"), "PNG", transparency=3))
    for mode in ("CMYK", "LAB", "YCbCr"):
        yield Picture(f"TIFF {mode}", "TIFF", encoded(image.convert(mode), "TIFF"))
    for compression in COMPRESSIONS:
        yield Picture(f"TIFF {compression}", "TIFF", encoded(image, "TIFF", compression=compression))
    for mode in ("1", "L", "P"):
        yield Picture(f"BMP {mode}", "BMP", encoded(image.convert(mode), "BMP"))
    yield Picture("WEBP lossless", "WEBP", encoded(clear, "WEBP", lossless=True))
    yield Picture("AVIF with alpha", "AVIF", encoded(clear, "AVIF"))


def _frames() -> Iterator[Picture]:
    first, *rest = [_noise(60, 60, seed) for seed in range(4)]
    for file_format in ("GIF", "WEBP", "PNG", "TIFF", "AVIF", "MPO"):
        data = encoded(first, file_format, save_all=True, append_images=rest)
        yield Picture(f"{file_format} of {1 + len(rest)} frames", file_format, data, cuttable=False)
