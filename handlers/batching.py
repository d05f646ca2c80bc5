"""Token ids of several texts -> the batches that the network reads, in the layout that its graph takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from handlers.arrays import Float32Array, Int64Array
from handlers.settings import TextSettings, TokenTypes

Run = Callable[[Mapping[str, npt.NDArray[Any]]], Float32Array]

# Attention of a packed batch works on texts filled up to the longest, the rest of the network, which has by far more
# arithmetic, on tokens alone: so many times the token budget may the filled-up texts have.
ATTENTION_SLOTS = 2


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """B texts laid end to end as one sequence of T tokens, of which the longest text has L.

    `input_ids` and `position_ids` are int64[T]; positions start again with each text. `rows` int64[B, L] says where in
    the sequence each text's tokens stand, -1 behind its last; `slots` int64[T] says where in the flattened `rows` each
    token does. A token attends only to those of its own row, so every text gets the logits it would get alone.
    `token_type_ids` int64[T] are fed where the graph takes them.
    """

    input_ids: Int64Array
    position_ids: Int64Array
    rows: Int64Array
    slots: Int64Array
    token_type_ids: Int64Array | None = None

    @classmethod
    def of(
        cls, texts: Sequence[Sequence[int]], first_position: int, token_types: TokenTypes | None = None
    ) -> PackedBatch:
        """Lay the token ids of at least one text end to end."""
        ids, own = _filled(texts)
        rows = np.full(own.shape, -1, np.int64)
        rows[own] = np.arange(len(ids))
        positions = np.concatenate([_positions(text, first_position) for text in texts])
        types = np.concatenate([_types(text, token_types) for text in texts]) if token_types else None
        return cls(ids, positions, rows, np.flatnonzero(own).astype(np.int64), types)

    def feeds(self) -> dict[str, Int64Array]:
        """The network's inputs by name."""
        named = {name: getattr(self, name) for name in ("input_ids", "position_ids", "rows", "slots")}
        return named if self.token_type_ids is None else named | {"token_type_ids": self.token_type_ids}


def _filled(texts: Sequence[Sequence[int]]) -> tuple[Int64Array, npt.NDArray[np.bool_]]:
    """All token ids end to end, and bool[B, L]: which places of the filled-up texts are tokens."""
    lengths = np.asarray([len(ids) for ids in texts])
    own: npt.NDArray[np.bool_] = np.arange(lengths.max()) < lengths[:, None]
    return np.concatenate([np.asarray(ids, np.int64) for ids in texts]), own


def _positions(ids: Sequence[int], first: int) -> Int64Array:
    """Position ids of one text, counted as transformers' create_position_ids_from_input_ids does.

    Where they begin behind the padding token's id, that token, which a text may spell out, takes none of its own.
    """
    if first == 0:
        return np.arange(len(ids), dtype=np.int64)
    padding = first - 1
    counted = np.asarray(ids, np.int64) != padding
    positions: Int64Array = np.cumsum(counted, dtype=np.int64) * counted + padding
    return positions


def _types(ids: Sequence[int], token_types: TokenTypes) -> Int64Array:
    return np.asarray(token_types.of(len(ids)), np.int64)


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """Several texts, each filled up to the longest: `input_ids` and `attention_mask` (1 for tokens) int64[B, T].

    `token_type_ids` int64[B, T], 0 where a text is filled up, are fed where the graph takes them.
    """

    input_ids: Int64Array
    attention_mask: Int64Array
    token_type_ids: Int64Array | None = None

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]], pad_token: int, token_types: TokenTypes | None = None) -> PaddedBatch:
        """Fill the token ids of at least one text up from behind."""
        ids, own = _filled(texts)
        input_ids = np.full(own.shape, pad_token, np.int64)
        input_ids[own] = ids
        types = None
        if token_types:
            types = np.zeros(own.shape, np.int64)
            types[own] = np.concatenate([_types(text, token_types) for text in texts])
        return cls(input_ids, own.astype(np.int64), types)

    def feeds(self) -> dict[str, Int64Array]:
        """The network's inputs by name."""
        named = {"input_ids": self.input_ids, "attention_mask": self.attention_mask}
        return named if self.token_type_ids is None else named | {"token_type_ids": self.token_type_ids}


def run_in_batches(
    run: Run, texts: Sequence[Sequence[int]], token_budget: int, settings: TextSettings
) -> list[Float32Array]:
    """The logits float32[labels] of each text, in the order of the texts."""
    logits: dict[int, Float32Array] = {}
    for indices, batch in batches(texts, token_budget, settings):
        logits |= zip(indices, run(batch.feeds()), strict=True)
    return [logits[index] for index in range(len(texts))]


def batches(
    texts: Sequence[Sequence[int]], token_budget: int, settings: TextSettings
) -> Iterator[tuple[list[int], PackedBatch | PaddedBatch]]:
    """Split `texts` into batches of at most `token_budget` tokens (one longer text goes alone).

    Short texts come first, so that those of a batch are alike in length. Each batch comes with its texts' indices.
    """
    for indices in _split([len(ids) for ids in texts], token_budget, settings.layout):
        chosen = [texts[index] for index in indices]
        if settings.layout == "packed":
            yield indices, PackedBatch.of(chosen, settings.first_position, settings.token_types)
        else:
            yield indices, PaddedBatch.of(chosen, settings.pad_token, settings.token_types)


def _split(lengths: Sequence[int], token_budget: int, layout: str) -> Iterator[list[int]]:
    """The indices of each batch. Padding counts as tokens do, unless the layout is without."""
    slots = {"packed": ATTENTION_SLOTS * token_budget, "padded": token_budget, "single": 0}[layout]
    batch: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        length = lengths[index]
        if batch and (tokens + length > token_budget or (len(batch) + 1) * length > slots):
            yield batch
            batch, tokens = [], 0
        batch.append(index)
        tokens += length
    if batch:
        yield batch
