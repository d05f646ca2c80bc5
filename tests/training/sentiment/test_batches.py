"""What the network is fed in training is what the archive's handler will feed it."""

from itertools import pairwise
from pathlib import Path

import pytest

from handlers.text import TextEncoder
from tests.tiny import MAX_TOKENS
from tests.training.sentiment.conftest import reference_ids
from training.sentiment import LABELS
from training.sentiment.base import load
from training.sentiment.batches import Collator, LengthGrouped, by_length, encode
from training.sentiment.data import read

ODD = [
    "@anna @ hello",
    "HTTPS://x http://y.z,http httpx",
    "two  spaces \u00a0and @no\u2028break",
    "it\u2019s 😀😀 @user👍",
    "<s> [SEP] </s> [MASK]",
    "ünïcödé \u200d zero\u200bwidth",
    "word " * 60,
    "\ufeff@bom .@dot",
]


@pytest.mark.parametrize("mended", [False, True])
def test_training_feeds_what_the_handler_feeds(base: Path, tmp_path: Path, mended: bool) -> None:
    file = tmp_path / "odd.tsv"
    file.write_text("".join(f"1\t{text}\n" for text in ODD), "utf-8")
    loaded = load(str(base), LABELS)
    tweets = read(str(file), "train", LABELS, mend=mended)
    encoded = encode(loaded.tokenizer, tweets, MAX_TOKENS)
    batch = Collator(loaded.tokenizer.pad_token_id)([encoded[index] for index in range(len(ODD))])
    fed = [
        ids[: sum(mask)]
        for ids, mask in zip(batch["input_ids"].tolist(), batch["attention_mask"].tolist(), strict=True)
    ]
    handler = TextEncoder(base / "tokenizer.json", "tweet", MAX_TOKENS)
    assert fed == [handler.encode(text).windows[0] for text in ODD]


def test_training_feeds_what_transformers_would_of_the_normalised_tweet(base: Path) -> None:
    loaded = load(str(base), LABELS)
    handler = TextEncoder(base / "tokenizer.json", "tweet", 512)
    for text in ODD:
        assert handler.encode(text).windows[0] == reference_ids(base, text)
    assert loaded.max_tokens == MAX_TOKENS


def test_batches_are_padded_to_their_longest_or_a_multiple() -> None:
    rows = [{"input_ids": [5, 6, 7], "labels": 2}, {"input_ids": [5], "labels": 0}]
    batch = Collator(pad_token=9)(rows)
    assert batch["input_ids"].tolist() == [[5, 6, 7], [5, 9, 9]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch["labels"].tolist() == [2, 0]
    assert Collator(9, multiple=8)(rows)["input_ids"].shape == (2, 8)


def test_an_epoch_has_every_tweet_once_in_batches_of_similar_length() -> None:
    lengths = [(7 * index) % 50 + 3 for index in range(1000)]
    sampler = LengthGrouped(lengths, 8, seed=1)
    order = list(sampler)
    assert sorted(order) == list(range(1000))
    spreads = [max(lengths[i] for i in run) - min(lengths[i] for i in run) for run in runs(order, 8)]
    assert sum(spreads) / len(spreads) < 3
    assert len(sampler) == 1000


def test_batches_come_in_no_order_of_length() -> None:
    lengths = list(range(512))
    firsts = [run[0] for run in runs(list(LengthGrouped(lengths, 8, seed=1)), 8)]
    ups = sum(one < other for one, other in pairwise(firsts))
    assert 16 < ups < 48


def test_the_order_is_that_of_seed_and_epoch_alone() -> None:
    one, other = LengthGrouped(range(100), 8, 1), LengthGrouped(range(100), 8, 1)
    other.set_epoch(1)
    later = list(other)
    assert list(one) != later
    one.set_epoch(1)
    assert list(one) == later
    assert list(LengthGrouped(range(100), 8, 2)) != list(LengthGrouped(range(100), 8, 1))


def test_only_the_last_batch_is_not_full() -> None:
    sampler = LengthGrouped([1, 2, 3] * 7, 4, 3)
    assert [len(run) for run in runs(list(sampler), 4)] == [4, 4, 4, 4, 4, 1]
    assert {[1, 2, 3][index % 3] for index in runs(list(sampler), 4)[-1]} == {3}  # the longest of its pool


def test_the_longest_come_first_where_memory_counts() -> None:
    assert by_length([2, 9, 4]) == [1, 2, 0]


def runs(order: list[int], size: int) -> list[list[int]]:
    return [order[at : at + size] for at in range(0, len(order), size)]
