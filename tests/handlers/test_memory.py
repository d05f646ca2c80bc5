"""A worker lives for months: what it has served must not stay in its memory."""

import gc
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from handlers.food import FoodHandler
from handlers.sentiment import SentimentHandler
from tests.handlers.pictures import encode, picture, rgb_profile
from tests.handlers.worker import Post, Worker

BATCH = 8
# The allocators and the network's arena reach their size in the first batches.
FIRST_BATCHES = 30
MORE_BATCHES = {"texts": 1000, "photos": 50}
# Half of what the token ids of so many texts take, and a fifth of the pixels of so many photos.
GROWTH_BYTES = 4_000_000


def texts(rng: np.random.Generator) -> list[Post]:
    """Of every length, no two alike."""
    return [Post.json({"text": " ".join(map(str, rng.integers(0, 10**6, rng.integers(1, 60))))}) for _ in range(BATCH)]


def photos(rng: np.random.Generator) -> list[Post]:
    """Of every size and form, no two alike, each with a profile of its own."""
    posts = []
    for _ in range(BATCH):
        width, height, seed = rng.integers(20, 250, 3).tolist()
        profile = rgb_profile(rng.uniform(0.1, 0.9, (3, 3)).tolist())
        posts.append(
            Post(
                encode(
                    picture(width, height, seed), str(rng.choice(["JPEG", "PNG", "WEBP", "GIF"])), icc_profile=profile
                )
            )
        )
    return posts


@pytest.fixture(autouse=True)
def _no_records() -> Iterator[None]:
    """pytest keeps every line that is logged, which a worker writes and forgets."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("kind", MORE_BATCHES)
def test_memory_does_not_grow_with_what_was_served(kind: str, text_roots: dict[str, Path], image_root: Path) -> None:
    """pytorch/serve#2453, pytorch/serve#1528, pytorch/serve#415, pytorch/serve#967"""
    config = {"handler": {"threads": 1}}
    if kind == "texts":
        worker, posts = Worker(SentimentHandler(), text_roots["bert"], config), texts
    else:
        worker, posts = Worker(FoodHandler(), image_root, config), photos
    rng = np.random.default_rng(4)

    def resident_after(batches: int) -> int:
        for _ in range(batches):
            assert {answer.status for answer in worker.predict(*posts(rng))} == {200}
        gc.collect()
        return int(psutil.Process().memory_info().rss)

    first = resident_after(FIRST_BATCHES)
    assert resident_after(MORE_BATCHES[kind]) - first < GROWTH_BYTES
