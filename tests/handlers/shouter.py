"""A small handler whose hooks fail on demand, to see what BatchHandler makes of it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handlers.base import BatchHandler
from handlers.decoding import text_of
from handlers.errors import UnsupportedMedia
from handlers.requests import Item
from tests.handlers.worker import Answer, Post, Worker


class Shouter(BatchHandler[str, str]):
    """Answers a text in upper case. Some texts make one of its hooks fail, with a message that quotes the text."""

    def load(self) -> None:
        self.batches: list[list[str]] = []
        self.misbehave: dict[int, Any] = {}

    def decode(self, item: Item) -> str:
        text = text_of(item, self.settings.options.max_text_bytes)
        if "bad-decode" in text:
            raise KeyError(text)
        if "refuse" in text:
            raise UnsupportedMedia("Refused.")
        return text

    def predict(self, instances: Sequence[str]) -> Sequence[str]:
        self.batches.append(list(instances))
        if len(instances) in self.misbehave:
            results: Sequence[str] = self.misbehave[len(instances)]
            return results
        for text in instances:
            if "bad-predict" in text:
                raise RuntimeError(f"CUDA error at {text}")
        return [text.upper() for text in instances]

    def encode(self, result: str) -> object:
        if "BAD-ENCODE" in result:
            raise ValueError(result)
        values: dict[str, object] = {
            "NAN": float("nan"),
            "NUMPY-NAN": {"score": np.float32("nan")},
            "NUMPY": {"score": np.float32(0.5), "count": np.int64(3), "ids": np.arange(2)},
            "SET": {1, 2},
            "NAME": {"label": "姓名"},
            "LONG": "x" * 2000,
        }
        return values.get(result, {"shout": result})


def make_root(directory: Path, **options: int) -> Path:
    """What TorchServe unpacks, as far as Shouter looks."""
    serving = {
        "format": 1,
        "name": "shouter",
        "version": "1.0",
        "labels": ["a"],
        "precision": "none",
        "options": options,
    }
    (directory / "model").mkdir()
    (directory / "model" / "serving.json").write_text(json.dumps(serving), encoding="utf-8")
    return directory


def text(value: str) -> Post:
    return Post(value.encode(), "text/plain")


GOOD, NEIGHBOUR = text("good"), Post.json({"text": "neighbour"})
GOOD_BODY, NEIGHBOUR_BODY = b'{"shout": "GOOD"}', b'{"shout": "NEIGHBOUR"}'


def between(worker: Worker, *posts: Post) -> list[Answer]:
    """The answers to `posts` in one batch between two good requests, which must be answered as ever."""
    first, *answers, last = worker.predict(GOOD, *posts, NEIGHBOUR)
    assert (first.status, first.body) == (200, GOOD_BODY)
    assert (last.status, last.body) == (200, NEIGHBOUR_BODY)
    return answers
