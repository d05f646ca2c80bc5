"""Tweets as the network reads them: tokenised by the handler's own code, grouped by length, padded batch by batch."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset, Sampler

from handlers.text import TextEncoder
from training.metrics import Int64Array
from training.sentiment.data import Tweets

POOL = 64  # batches that are sorted by length together


class Encoded(Dataset[dict[str, Any]]):
    """N lists of token ids with special tokens, and their labels int64[N]."""

    def __init__(self, ids: list[list[int]], labels: Int64Array) -> None:
        self.ids, self.labels = ids, labels
        self.lengths = [len(tokens) for tokens in ids]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": self.ids[index], "labels": int(self.labels[index])}


def encode(tokenizer: Any, tweets: Tweets, max_tokens: int) -> Encoded:
    """Tokenise with the code that will tokenise in the archive, so that training and serving cannot differ.

    `tokenizer` is a fast one of transformers. A tweet of more than `max_tokens` is cut.
    """
    with tempfile.TemporaryDirectory(prefix="marsmith-") as scratch:
        file = Path(scratch) / "tokenizer.json"
        tokenizer.backend_tokenizer.save(str(file))
        encoder = TextEncoder(file, "tweet", max_tokens)
    return Encoded([encoder.encode(text).windows[0] for text in tweets.texts], tweets.labels)


@dataclass(frozen=True, slots=True)
class Collator:
    """Makes network inputs int64[B, T] of rows, padded at the end to the longest, or on to a multiple of `multiple`."""

    pad_token: int
    multiple: int = 1

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return input_ids and attention_mask [B, T], and labels [B]."""
        longest = max(len(row["input_ids"]) for row in rows)
        width = -(-longest // self.multiple) * self.multiple
        padding = [width - len(row["input_ids"]) for row in rows]
        ids = [row["input_ids"] + [self.pad_token] * pad for row, pad in zip(rows, padding, strict=True)]
        mask = [[1] * (width - pad) + [0] * pad for pad in padding]
        labels = [row["labels"] for row in rows]
        return {
            "input_ids": torch.tensor(ids),
            "attention_mask": torch.tensor(mask),
            "labels": torch.tensor(labels),
        }


class LengthGrouped(Sampler[int]):
    """Every index once an epoch, so that each run of `batch` indices has texts of similar length, in random order.

    The order is that of `seed` and the epoch alone. transformers' own sampler ("group_by_length") draws from the global
    generator: a resumed run would see another order than the one that was killed.
    """

    def __init__(self, lengths: Sequence[int], batch: int, seed: int) -> None:
        self._lengths, self._batch, self._seed, self._epoch = lengths, batch, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of that epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        dice = random.Random(f"{self._seed} {self._epoch}")  # noqa: S311 - an order to train in, not a secret
        order = list(range(len(self._lengths)))
        dice.shuffle(order)
        span, size = self._batch * POOL, self._batch
        pools = [sorted(order[at : at + span], key=self._lengths.__getitem__) for at in range(0, len(order), span)]
        batches = [pool[at : at + size] for pool in pools for at in range(0, len(pool), size)]
        dice.shuffle(batches)
        batches.sort(key=len, reverse=True)  # the one that is not full comes last, or it would shift all others
        return (index for batch in batches for index in batch)


def by_length(lengths: Sequence[int]) -> list[int]:
    """Indices from the longest text to the shortest: a batch that does not fit in memory is the first."""
    return sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
