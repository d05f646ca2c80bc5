"""What int8 costs the starters is counted as TweetEval and top-1 count."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks.parity import FOOD, SENTIMENT
from benchmarks.precision import Cost, Labelled, change, cost, read_images, read_texts, score

LABELS = np.array([0, 0, 0, 1, 2, 2])
GUESSED = np.array([0, 0, 1, 1, 2, 0])
GOOD = Cost(
    metric="top-1",
    inputs=100,
    calibration_inputs=10,
    fp32=0.8,
    int8=0.798,
    label_agreement=0.995,
    max_probability_change=0.05,
    fp32_bytes=2,
    int8_bytes=1,
)


def test_macro_recall_is_the_mean_of_each_label_s_recall() -> None:
    assert score(SENTIMENT, LABELS, GUESSED) == pytest.approx((2 / 3 + 1 + 1 / 2) / 3)


def test_top_1_is_the_share_that_is_right() -> None:
    assert score(FOOD, LABELS, GUESSED) == pytest.approx(4 / 6)


@pytest.mark.parametrize(
    ("changes", "ok"), [({}, True), ({"int8": 0.79}, False), ({"label_agreement": 0.98}, False), ({"int8": 0.9}, True)]
)
def test_int8_may_lose_little(changes: dict[str, float], ok: bool) -> None:
    assert dataclasses.replace(GOOD, **changes).ok is ok  # type: ignore[arg-type]


def test_the_largest_change_is_of_any_label() -> None:
    assert change({"a": 0.6, "b": 0.3, "c": 0.1}, {"b": 0.35, "a": 0.65, "c": 0.0}) == pytest.approx(0.1)


def test_data_are_read_with_their_labels(tmp_path: Path) -> None:
    (tmp_path / "texts.tsv").write_text("2\tgood\tday\n\n0\tbad\n", encoding="utf-8")
    assert read_texts(tmp_path / "texts.tsv") == Labelled(["good\tday", "bad"], [2, 0])
    (tmp_path / "one.jpg").write_bytes(b"1")
    (tmp_path / "list.txt").write_text("one.jpg, 7, 3\n", encoding="utf-8")
    assert read_images(tmp_path / "list.txt") == Labelled([b"1"], [3])


@pytest.mark.slow
def test_a_starter_is_built_in_both_precisions_and_asked(tmp_path: Path) -> None:
    """The real archives, a few pictures of one colour each: whether they are apples is not what this is about."""
    for shade in range(0, 250, 50):
        Image.new("RGB", (200, 200), (shade, 255 - shade, 80)).save(tmp_path / f"{shade}.png")
    rows = "".join(f"{shade}.png, 0, {shade // 50}\n" for shade in range(0, 250, 50))
    (tmp_path / "list.txt").write_text(rows, encoding="utf-8")
    images = read_images(tmp_path / "list.txt")
    found = cost(FOOD, images, images, tmp_path)
    assert (found.inputs, found.calibration_inputs) == (5, 5)
    assert 0 < found.max_probability_change < 0.2
    assert found.int8_bytes < 0.5 * found.fp32_bytes
