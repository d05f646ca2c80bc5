"""Texts and pictures of many kinds, the same in every run: real ones that ship with Python and scikit-learn, varied."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

SEED = 20
EXIF_ORIENTATION = 0x0112
# First and last code points of scripts and symbols; unassigned ones between are part of the exercise.
SCRIPTS = (
    (0x00C0, 0x024F), (0x0370, 0x03FF), (0x0400, 0x04FF), (0x0531, 0x0556), (0x05D0, 0x05EA), (0x0620, 0x064A),
    (0x0904, 0x0939), (0x0E01, 0x0E2E), (0x10D0, 0x10F0), (0x1E00, 0x1EFF), (0x3041, 0x3096), (0x4E00, 0x9FA5),
    (0xAC00, 0xD7A3), (0xFF21, 0xFF3A), (0x12000, 0x12399), (0x1D400, 0x1D7FF), (0x1F300, 0x1F64F), (0x20000, 0x2A6D6),
)  # fmt: skip
# Control, format and combining characters, and words that some tokenizer takes for its own.
ODD = (
    "\0", "\x07", "\x1b[31m", "\x7f", "\x85", "\u00a0", "\u00ad", "\u0130", "\u0301\u0327\u0308", "\u200b", "\u200d",
    "\u202e", "\u2028", "\ufeff", "\ufffd", "\ufffe", "\U000e0041", "👩‍👩‍👧‍👦", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "\r\n", "\t", "&amp;", "<s>",
    "</s>", "<pad>", "<mask>", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "##ing", "Ġ", "▁",
)  # fmt: skip
TWEET_PARTS = (
    "@user",
    "@",
    "@anna!",
    "http",
    "https://example.org/a?b=c#d",
    "#fail",
    "#MondayMood",
    "RT",
    "…",
    "😀",
    "❤️",
)
LONGEST_WORDS = 800
ROTATION_DEGREES = 30
# Of a picture's sides, in pixels: from less than a patch of the network to most of the photo.
SHORTEST, LONGEST = 3, 480


def texts(count: int) -> list[str]:
    """Sentences, tweets, many scripts, odd characters, and lengths from one word to far beyond what models read."""
    rng = random.Random(SEED)  # noqa: S311 - no secrets here
    sentences = _sentences()
    words = " ".join(sentences).split()
    kinds: list[Callable[[], str]] = [
        lambda: rng.choice(sentences),
        lambda: rng.choice(sentences),
        lambda: _shuffled(rng, [*_some(rng, words, 12), *_some(rng, TWEET_PARTS, 5)], " "),
        lambda: " ".join(_word(rng) for _ in range(rng.randint(1, 12))),
        lambda: _shuffled(rng, [*_some(rng, words, 6), *_some(rng, ODD, 6)], rng.choice(["", " "])),
        # Most are short, as tweets are, and a few too long for any model.
        lambda: " ".join(rng.choices(words, k=round(LONGEST_WORDS ** (rng.random() ** 2)))),
    ]
    return [kinds[index % len(kinds)]() for index in range(count)]


def _sentences() -> list[str]:
    """English prose of Python's own manual."""
    from pydoc_data.topics import topics

    paragraphs = re.split(r"\n\s*\n", "\n\n".join(topics[name] for name in sorted(topics)))
    prose = (" ".join(paragraph.split()) for paragraph in paragraphs)
    return [sentence for one in prose for sentence in re.split(r"(?<=[.!?]) ", one) if re.search(r"[a-z]{2}", sentence)]


def _some(rng: random.Random, things: Any, most: int) -> list[str]:
    return rng.choices(things, k=rng.randint(1, most))


def _shuffled(rng: random.Random, parts: list[str], between: str) -> str:
    rng.shuffle(parts)
    return between.join(parts)


def _word(rng: random.Random) -> str:
    first, last = rng.choice(SCRIPTS)
    return "".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 9)))


def pictures(count: int) -> list[bytes]:
    """Parts of two photographs, scaled and turned, in every form that people send."""
    from sklearn.datasets import load_sample_images

    photos = [Image.fromarray(pixels) for pixels in load_sample_images().images]
    rng = random.Random(SEED)  # noqa: S311 - no secrets here
    return [FORMS[index % len(FORMS)](_part(rng, photos[index % len(photos)])) for index in range(count)]


def _part(rng: random.Random, photo: Image.Image) -> Image.Image:
    """A crop of the photo, turned a little, at any size and shape."""
    turned = photo.rotate(rng.uniform(-ROTATION_DEGREES, ROTATION_DEGREES), Image.Resampling.BICUBIC)
    width, height = (rng.randint(side // 4, side) for side in turned.size)
    left, top = rng.randint(0, turned.width - width), rng.randint(0, turned.height - height)
    size = (rng.randint(SHORTEST, LONGEST), rng.randint(SHORTEST, LONGEST))
    return turned.crop((left, top, left + width, top + height)).resize(size, Image.Resampling.LANCZOS)


def _file(file_format: str, mode: str = "RGB", **options: Any) -> Callable[[Image.Image], bytes]:
    def write(image: Image.Image) -> bytes:
        stream = io.BytesIO()
        image.convert(mode).save(stream, file_format, **options)
        return stream.getvalue()

    return write


def _turned(orientation: int) -> Callable[[Image.Image], bytes]:
    exif = Image.Exif()
    exif[EXIF_ORIENTATION] = orientation
    return _file("JPEG", exif=exif)


def _clear(mode: str, file_format: str, **options: Any) -> Callable[[Image.Image], bytes]:
    """With a transparency that falls from left to right."""

    def write(image: Image.Image) -> bytes:
        layer = image.convert(mode)
        layer.putalpha(Image.linear_gradient("L").rotate(90).resize(image.size))
        return _file(file_format, mode, **options)(layer)

    return write


def _deep(image: Image.Image) -> bytes:
    """Grey of 16 bits."""
    grey = np.asarray(image.convert("L")).astype(np.uint16)
    stream = io.BytesIO()
    Image.fromarray(grey * 257).save(stream, "PNG")
    return stream.getvalue()


FORMS: tuple[Callable[[Image.Image], bytes], ...] = (
    _file("JPEG", quality=30),
    _file("JPEG", quality=75, progressive=True),
    _file("JPEG", quality=95, subsampling=0),
    _file("JPEG", "L"),
    _file("JPEG", "CMYK"),
    *(_turned(orientation) for orientation in (2, 3, 6, 8)),
    _file("PNG"),
    _file("PNG", "L"),
    _file("PNG", "P"),
    _file("PNG", "1"),
    _deep,
    _clear("RGBA", "PNG"),
    _clear("LA", "PNG"),
    _file("WEBP", quality=60),
    _clear("RGBA", "WEBP", lossless=True),
    _file("GIF", "P"),
    _file("BMP"),
    _file("TIFF", compression="tiff_lzw"),
    _file("AVIF", speed=10),
)
