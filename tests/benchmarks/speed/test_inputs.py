"""What the servers are asked, what an answer needs at least, and how fast a machine can be."""

import io
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from benchmarks.speed.agreement import CLOSE_SCORES
from benchmarks.speed.checkpoints import labels, text_checkpoint
from benchmarks.speed.inputs import TWEET_TOKENS, phone_photos, texts, thumbnails, words
from benchmarks.speed.limit import peaks
from benchmarks.speed.shapes import DEIT_SMALL, ROBERTA_BASE, TINY_TEXT, ImageShape, TextShape


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_checkpoint(tmp_path_factory.mktemp("checkpoint"), TINY_TEXT)


def test_the_quantiles_of_tweets_have_their_mean() -> None:
    assert list(TWEET_TOKENS) == sorted(TWEET_TOKENS)
    # Of all 47,743 it is 30.516.
    assert statistics.mean(TWEET_TOKENS) == pytest.approx(30.516, abs=0.01)


def test_texts_have_the_lengths_of_tweets_in_another_order(checkpoint: Path) -> None:
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    made = texts(tokenizer)
    lengths = [len(tokenizer.encode(text).ids) for text in made]
    assert tuple(sorted(lengths)) == TWEET_TOKENS
    assert lengths != sorted(lengths)
    assert made == texts(tokenizer)
    assert len(set(made)) == len(made)


def test_other_seeds_make_other_texts(checkpoint: Path) -> None:
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    others = texts(tokenizer, 100, seed=1)
    assert len(others) == 100
    assert not set(others) & set(texts(tokenizer))


def test_words_are_distinct() -> None:
    made = words(2_000)
    assert len(set(made)) == 2_000
    assert list(made) == sorted(made, key=lambda word: (len(word), word))


def test_a_checkpoint_prefers_no_label_always(checkpoint: Path) -> None:
    from transformers import pipeline

    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    found = pipeline("text-classification", str(checkpoint), device="cpu", trust_remote_code=False)(texts(tokenizer))
    counts = [sum(one["label"] == label for one in found) for label in labels(checkpoint)]
    assert sum(counts) == len(TWEET_TOKENS)
    assert min(counts) >= len(TWEET_TOKENS) // 10


def test_rounding_weights_to_seven_bits_leaves_the_labels(checkpoint: Path) -> None:
    """As quantisation does at the coarsest, a scale for each output: the checkpoint is as sure as a trained one."""
    model: Any = AutoModelForSequenceClassification.from_pretrained(checkpoint, trust_remote_code=False).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=False)
    batch = tokenizer(texts(tokenizer.backend_tokenizer), padding=True, return_tensors="pt")
    with torch.inference_mode():
        before = model(**batch).logits.softmax(dim=-1)
        for layer in model.modules():
            if isinstance(layer, torch.nn.Linear):
                scale = layer.weight.abs().amax(dim=1, keepdim=True) / 63
                layer.weight.copy_(torch.round(layer.weight / scale) * scale)
        after = model(**batch).logits.softmax(dim=-1)
    best = before.topk(2).values
    sure = best[:, 0] - best[:, 1] >= CLOSE_SCORES
    assert sure.float().mean() > 0.8
    assert before.argmax(dim=-1)[sure].equal(after.argmax(dim=-1)[sure])
    assert 0 < (before - after).abs().max() < 0.1


def test_photos_have_their_size_and_differ() -> None:
    small, large = list(thumbnails(4)), list(phone_photos(2, (400, 300)))
    assert [Image.open(io.BytesIO(photo)).size for photo in (*small, *large)] == [(224, 224)] * 4 + [(400, 300)] * 2
    assert len(set(small)) == 4
    assert small == list(thumbnails(4))


def test_useful_arithmetic_is_counted_as_by_hand() -> None:
    text = TextShape(layers=2, hidden=4, heads=1, labels=3, vocabulary=9, positions=9)
    # The first layer for 5 tokens: four projections of 4 x 4, two matrices of 4 x 16, and attention to 5 tokens.
    first = 5 * (4 * 16 + 2 * 64 + 2 * 5 * 4)
    # The last: keys and values for 5 tokens, and all the rest for one.
    last = 5 * 2 * 16 + (2 * 16 + 2 * 64) + 2 * 5 * 4
    assert text.flops(5) == 2 * (first + last + 4 * (4 + 3))
    image = ImageShape(layers=2, hidden=4, heads=1, labels=3, side=4, patch=2)
    assert image.flops() == 2 * (first + last + 4 * 12 * 4 + 4 * 3)


def test_the_real_shapes_need_what_is_known_of_them() -> None:
    # 12 layers of 7.1 M weights, twice for each of 32 tokens, less what the last layer need not do.
    assert ROBERTA_BASE.flops(32) == pytest.approx(32 * 2 * 85e6, rel=0.08)
    # DeiT's authors count 4.6 G multiply-adds.
    assert DEIT_SMALL.flops() == pytest.approx(2 * 4.6e9, rel=0.08)


@pytest.mark.slow
def test_the_limit_is_measured_for_both_precisions() -> None:
    found = peaks(threads=1)
    assert set(found) == {"fp32", "int8"}
    # Between a tenth of what one core of 2013 does and more than any core does.
    assert all(1e9 < operations < 1e14 for operations in found.values())
