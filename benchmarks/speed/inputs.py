"""What the servers are asked: texts as long as real tweets, and photos of a web page's and of a phone's size.

No tweet and no photo of anybody is here. The lengths are the tweets', the words are made of syllables; the photos are
cuttings of scikit-learn's two sample photos, enlarged and with a sensor's noise.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, cycle, islice
from typing import Any

# Tokens of the 47,743 training tweets of SemEval-2017 task 4 (tweet_eval), special tokens included, by the starter's
# tokenizer: 64 quantiles, so that 64 texts have the distribution (mean 30.5).
TWEET_TOKENS = (
    *(12, 14, 15, 17, 18, 19, 19, 20, 21, 21, 22, 23, 23, 24, 24, 25),
    *(25, 26, 26, 26, 27, 27, 28, 28, 28, 29, 29, 29, 30, 30, 30, 31),
    *(31, 31, 32, 32, 32, 32, 33, 33, 33, 34, 34, 34, 35, 35, 35, 36),
    *(36, 36, 37, 37, 38, 38, 39, 39, 40, 41, 41, 42, 44, 45, 48, 54),
)
SPECIAL_TOKENS = 2
SEED = 8
WORDS = 40_000
SYLLABLES = tuple(
    consonant + vowel
    for consonant in ("b", "br", "ch", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "st", "t", "v", "w", "")
    for vowel in ("a", "e", "i", "o", "u", "ai", "ee", "oun")
)
MAX_SYLLABLES = 4

# The sides (width, height) of a thumbnail and of a phone's 12-megapixel photo.
THUMBNAIL, PHONE = (224, 224), (4000, 3000)
THUMBNAILS, PHONE_PHOTOS = 64, 8
JPEG_QUALITY = 92
# Standard deviation of a sensor's noise, in levels of 255.
NOISE_LEVELS = 5.0
# A cutting has at least this share of the photo's sides.
SMALLEST_CUTTING = 0.4


@cache
def words(count: int = WORDS) -> tuple[str, ...]:
    """Distinct made-up words, short ones first: as in any language, those are the frequent ones."""
    rng = random.Random(SEED)  # noqa: S311 - no secret
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(rng.choices(SYLLABLES, k=rng.randint(1, MAX_SYLLABLES)))] = None
    return tuple(sorted(found, key=lambda word: (len(word), word)))


def texts(tokenizer: Any, count: int = len(TWEET_TOKENS), seed: int = SEED) -> list[str]:
    """Texts with exactly as many tokens by `tokenizer` as TWEET_TOKENS has, over again, in a fixed random order."""
    rng = random.Random(seed)  # noqa: S311
    vocabulary = words()
    # Zipf's law: the nth word is n times rarer than the first.
    cumulated = tuple(accumulate(1 / rank for rank in range(1, len(vocabulary) + 1)))
    lengths = list(islice(cycle(TWEET_TOKENS), count))
    rng.shuffle(lengths)
    return [_text(tokenizer, length - SPECIAL_TOKENS, vocabulary, cumulated, rng) for length in lengths]


def _text(
    tokenizer: Any, tokens: int, vocabulary: Sequence[str], cumulated: Sequence[float], rng: random.Random
) -> str:
    text, left = "", tokens
    while left:
        (word,) = rng.choices(vocabulary, cum_weights=cumulated)
        piece = f" {word}"
        # A byte-level tokenizer splits at spaces, so the lengths of the words add up.
        length = len(tokenizer.encode(piece, add_special_tokens=False).ids)
        if length <= left:
            text, left = text + piece, left - length
    return text


def thumbnails(count: int = THUMBNAILS, seed: int = SEED) -> Iterator[bytes]:
    """JPEGs of 224 x 224 pixels."""
    return _photos(THUMBNAIL, count, seed)


def phone_photos(count: int = PHONE_PHOTOS, size: tuple[int, int] = PHONE) -> Iterator[bytes]:
    """JPEGs of 12 megapixels, of about the size of a phone's."""
    return _photos(size, count, SEED)


def _photos(size: tuple[int, int], count: int, seed: int) -> Iterator[bytes]:
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_sample_images

    rng = np.random.default_rng(seed)
    samples = [Image.fromarray(photo) for photo in load_sample_images().images]
    for index in range(count):
        source = samples[index % len(samples)]
        share = rng.uniform(SMALLEST_CUTTING, 1)
        width, height = int(source.width * share), int(source.height * share)
        left, top = int(rng.integers(source.width - width + 1)), int(rng.integers(source.height - height + 1))
        photo = source.crop((left, top, left + width, top + height)).resize(size, Image.Resampling.BICUBIC)
        pixels = np.asarray(photo, np.float32)
        pixels = pixels + rng.standard_normal(pixels.shape, np.float32) * NOISE_LEVELS
        stream = io.BytesIO()
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(stream, "JPEG", quality=JPEG_QUALITY)
        yield stream.getvalue()
