"""A tiny base and tweets that it can learn from: whether a tweet is good or bad one word says twice."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from handlers.text import normalise_tweet
from tests.tiny import sentiment_checkpoint
from training.sentiment.base import load
from training.sentiment.run import Sources
from training.sentiment.settings import Settings

LABELS = ("negative", "neutral", "positive")
SIGNS = ("worst", "train", "great")
FILLERS = ("what a day at the beach", "no coffee with my friends", "platform two tomorrow @anna", "http://t.co/x so")
QUICK = Settings(max_steps=12, every=4, batch=8, lr=3e-3, balance=1.0, threads=1, store="fp32", max_tokens=32)
THREADS = torch.get_num_threads()


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(THREADS)


def tsv(file: Path, count: int, seed: int = 0) -> Path:
    """Write `count` tweets of all labels."""
    dice = random.Random(seed)
    rows = []
    for index in range(count):
        label = index % len(LABELS)
        rows.append(f"{label}\t{SIGNS[label]} {' '.join(dice.choices(FILLERS, k=dice.randint(1, 2)))} {SIGNS[label]}")
    file.write_text("\n".join(rows) + "\n", "utf-8")
    return file


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sentiment_checkpoint(tmp_path_factory.mktemp("base"), initializer_range=0.2)


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory, base: Path) -> Sources:
    folder = tmp_path_factory.mktemp("tweets")
    train, val, test = (
        str(tsv(folder / f"{name}.tsv", 60, seed)) for seed, name in enumerate(("train", "val", "test"))
    )
    return Sources(str(base), train, val, test)


@pytest.fixture
def console() -> Console:
    return Console(stderr=True, quiet=True)


def reference_ids(base: Path, text: str) -> list[int]:
    """What transformers' own tokenizer makes of a tweet that is normalised."""
    tokenizer: Any = load(str(base), LABELS).tokenizer
    ids: list[int] = tokenizer(normalise_tweet(text)).input_ids
    return ids
