"""Batches lose no token and mix no texts, within their budget."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.batching import ATTENTION_SLOTS, PackedBatch, PaddedBatch, batches
from handlers.settings import TextSettings, TokenTypes

FIRST, PADDING = 2, 1
TEXTS = st.lists(st.lists(st.integers(2, 999), min_size=1, max_size=30), max_size=20)


def settings(layout: str) -> TextSettings:
    return TextSettings("none", max_tokens=512, first_position=FIRST, layout=layout, pad_token=PADDING)


def split(lengths: list[int], budget: int, layout: str) -> list[list[int]]:
    """The indices of each batch of texts of those lengths."""
    return [indices for indices, _ in batches([[1] * n for n in lengths], budget, settings(layout))]


def test_a_packed_batch_lays_texts_end_to_end() -> None:
    batch = PackedBatch.of([[7, 8, 9], [5], [6, 4]], first_position=2)
    assert batch.input_ids.tolist() == [7, 8, 9, 5, 6, 4]
    assert batch.position_ids.tolist() == [2, 3, 4, 2, 2, 3]
    assert batch.rows.tolist() == [[0, 1, 2], [3, -1, -1], [4, 5, -1]]
    assert batch.slots.tolist() == [0, 1, 2, 3, 6, 7]
    assert {name: array.dtype for name, array in batch.feeds().items()} == dict.fromkeys(
        ["input_ids", "position_ids", "rows", "slots"], np.dtype(np.int64)
    )


def test_a_packed_batch_of_one_has_one_row() -> None:
    batch = PackedBatch.of([[7, 8]], first_position=0)
    assert (batch.position_ids.tolist(), batch.rows.tolist(), batch.slots.tolist()) == ([0, 1], [[0, 1]], [0, 1])


TYPES = TokenTypes(before=(0,), text=1, after=(2,))


def test_token_types_lie_where_their_tokens_do() -> None:
    texts = [[7, 8, 9, 6], [5, 4]]
    packed = PackedBatch.of(texts, first_position=0, token_types=TYPES).feeds()
    assert packed["token_type_ids"].tolist() == [0, 1, 1, 2, 0, 2]
    padded = PaddedBatch.of(texts, pad_token=3, token_types=TYPES).feeds()
    assert padded["token_type_ids"].tolist() == [[0, 1, 1, 2], [0, 2, 0, 0]]
    assert {packed["token_type_ids"].dtype, padded["token_type_ids"].dtype} == {np.dtype(np.int64)}
    assert "token_type_ids" not in PaddedBatch.of(texts, pad_token=3).feeds()


def test_a_padding_token_spelt_out_in_a_text_takes_no_position() -> None:
    """RoBERTa's first position is behind its padding token's id."""
    batch = PackedBatch.of([[0, 7, 1, 8, 1, 1, 9], [0, 7]], first_position=2)
    assert batch.position_ids.tolist() == [2, 3, 1, 4, 1, 1, 5, 2, 3]
    assert PackedBatch.of([[0, 7, 1]], first_position=0).position_ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("layout", "lengths", "budget", "indices"),
    [
        ("packed", [], 10, []),
        ("packed", [3], 10, [[0]]),
        ("packed", [5, 5], 10, [[0, 1]]),
        ("packed", [5, 6], 10, [[0], [1]]),
        ("packed", [20, 1, 1], 10, [[1, 2], [0]]),
        ("packed", [6, 1, 1, 1], 10, [[1, 2, 3], [0]]),  # 9 tokens, but 24 with each as long as the longest
        ("packed", [5, 1, 1, 1], 10, [[1, 2, 3, 0]]),
        ("packed", [2, 2, 2], 0, [[0], [1], [2]]),
        ("padded", [5, 1], 10, [[1, 0]]),
        ("padded", [6, 1], 10, [[1], [0]]),
        ("single", [1, 3, 2], 10, [[0], [2], [1]]),
    ],
)
def test_the_budget_splits_the_texts_short_ones_first(
    layout: str, lengths: list[int], budget: int, indices: list[list[int]]
) -> None:
    assert split(lengths, budget, layout) == indices


@given(TEXTS, st.integers(0, 60))
def test_packing_keeps_every_text_within_the_budget(texts: list[list[int]], budget: int) -> None:
    """pytorch/serve#1792, kserve/kserve#3438, pytorch/serve#2121"""
    seen = []
    for indices, batch in batches(texts, budget, settings("packed")):
        assert isinstance(batch, PackedBatch)
        assert len(indices) == 1 or (len(batch.input_ids) <= budget and batch.rows.size <= ATTENTION_SLOTS * budget)
        assert batch.rows.ravel()[batch.slots].tolist() == list(range(len(batch.input_ids)))
        for index, row in zip(indices, batch.rows, strict=True):
            own = row[row >= 0]
            assert batch.input_ids[own].tolist() == texts[index]
            assert batch.position_ids[own].tolist() == list(range(FIRST, FIRST + len(own)))
            assert (row[len(own) :] == -1).all()
        seen += indices
    assert sorted(seen) == list(range(len(texts)))


@given(TEXTS, st.integers(0, 60))
def test_padding_keeps_every_text_within_the_budget(texts: list[list[int]], budget: int) -> None:
    seen = []
    for indices, batch in batches(texts, budget, settings("padded")):
        assert isinstance(batch, PaddedBatch)
        assert len(indices) == 1 or batch.input_ids.size <= budget
        for index, ids, mask in zip(indices, batch.input_ids, batch.attention_mask, strict=True):
            assert ids[mask == 1].tolist() == texts[index]
            assert mask.tolist() == [1] * len(texts[index]) + [0] * (len(mask) - len(texts[index]))
            assert (ids[mask == 0] == PADDING).all()
        seen += indices
    assert sorted(seen) == list(range(len(texts)))


@pytest.mark.parametrize("layout", ["packed", "padded"])
@given(lengths=st.lists(st.integers(1, 30), min_size=2, max_size=20), budget=st.integers(1, 60))
def test_no_batch_would_take_the_next_text_too(layout: str, lengths: list[int], budget: int) -> None:
    parts = split(lengths, budget, layout)
    for batch, after in pairwise(parts):
        longer = [lengths[index] for index in (*batch, after[0])]
        slots, allowed = len(longer) * max(longer), budget if layout == "padded" else ATTENTION_SLOTS * budget
        assert sum(longer) > budget or slots > allowed
