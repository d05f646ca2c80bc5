"""The starter archives answer as transformers does from the same checkpoints; so does the benchmark that says so."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from benchmarks import parity, variety
from benchmarks.parity import Scores, judge
from marsmith.recipe.recipe import Recipe

# More words than tokens that the starter reads.
LONG_WORDS = 512


@pytest.fixture
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.usefixtures("_one_thread")
def test_a_thousand_texts_and_two_hundred_pictures(tmp_path: Path) -> None:
    texts = parity.sample(variety.texts(parity.TEXTS), None)
    pictures = parity.sample(variety.pictures(parity.PICTURES), None)
    found = parity.compare(texts, pictures, tmp_path)
    assert {name: one.inputs for name, one in found.items()} == {"sentiment": 1000, "food": 200, "food, scaled": 200}
    for name, one in found.items():
        assert one.max_difference <= 1e-4
        assert (one.label_agreement, one.top_5_agreement) == (1.0, 1.0)
        assert parity.is_ok(name, one)


@pytest.mark.slow
def test_the_inputs_are_of_many_kinds_and_always_the_same() -> None:
    texts, pictures = variety.texts(300), variety.pictures(44)
    assert (texts, pictures) == (variety.texts(300), variety.pictures(44))
    assert len(set(texts)) > 280
    assert min(map(len, texts)) < 10
    assert max(len(text.split()) for text in texts) > LONG_WORDS
    assert all(
        any(character > limit for text in texts for character in text) for limit in ("\u0400", "\u4e00", "\U0001f300")
    )
    assert any("@user" in text for text in texts)
    assert any("\u202e" in text for text in texts)
    opened = [Image.open(io.BytesIO(data)) for data in pictures]
    assert {image.format for image in opened} == {"JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"}
    assert {image.mode for image in opened} >= {"1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"}
    assert {image.getexif().get(0x0112) for image in opened} >= {None, 2, 3, 6, 8}


SURE: Scores = {"a": 0.7, "b": 0.2, "c": 0.1}
CLOSE: Scores = {"a": 0.40004, "b": 0.39999, "c": 0.19997}


@pytest.mark.parametrize(
    ("expected", "answer", "labels", "top", "ok"),
    [
        (SURE, SURE, 1, 1, True),
        (SURE, {"a": 0.6, "b": 0.3, "c": 0.1}, 1, 1, False),
        (SURE, {"b": 0.7, "a": 0.2, "c": 0.1}, 0, 0, False),
        (SURE, {"a": 0.7, "c": 0.2, "b": 0.1}, 1, 0, False),
        (CLOSE, {"b": 0.4, "a": 0.4, "c": 0.2}, 1, 1, True),
        (CLOSE, {"c": 0.4, "a": 0.4, "b": 0.2}, 0, 0, False),
    ],
)
def test_a_difference_shows(expected: Scores, answer: Scores, labels: float, top: float, ok: bool) -> None:
    found = judge([expected], [answer])
    assert found.max_difference == found.mean_difference == max(abs(expected[name] - answer[name]) for name in expected)
    assert (found.label_agreement, found.top_5_agreement, found.ok) == (labels, top, ok)


def test_only_scaled_decoding_may_differ_and_not_by_many_labels() -> None:
    other: Scores = {"b": 0.6, "a": 0.3, "c": 0.1}
    for wrong, ok in ((5, True), (6, False)):
        found = judge([SURE] * 1000, [SURE] * (1000 - wrong) + [other] * wrong)
        assert parity.is_ok("food, scaled", found) is ok
        assert not parity.is_ok("food", found)


def test_the_exact_row_decodes_every_pixel(tmp_path: Path) -> None:
    assert Recipe.load(parity.decoding_all(tmp_path)).decode == "full"
    assert Recipe.load(parity.MODELS / "food").decode == "scaled"


def test_no_number_is_no_parity() -> None:
    """max(0.0, nan) is 0.0."""
    for place in range(3):
        answers = [SURE, SURE, SURE]
        answers[place] = {"a": 0.7, "b": float("nan"), "c": 0.1}
        assert not judge([SURE] * 3, answers).ok


def test_results_are_written_under_their_data_and_keep_the_others(tmp_path: Path) -> None:
    file, one = tmp_path / "results/parity.json", judge([SURE, CLOSE], [SURE, CLOSE])
    available = {"sentiment": 2, "food": 7}
    parity.merge(file, "ours", {"sentiment": one, "food": one}, available)
    first = json.loads(file.read_text(encoding="utf-8"))
    worse = judge([SURE], [{"a": 0.6, "b": 0.3, "c": 0.1}])
    parity.merge(file, "theirs", {"sentiment": worse, "food": one}, available)
    both = json.loads(file.read_text(encoding="utf-8"))
    assert list(both) == ["ours", "theirs"]
    assert both["ours"] == first["ours"]
    assert both["theirs"]["food"]["available"] == 7
    assert (both["theirs"]["food"]["inputs"], both["theirs"]["sentiment"]["inputs"]) == (2, 1)
    parity.merge(file, "theirs", {"sentiment": one, "food": one}, available)
    assert json.loads(file.read_text(encoding="utf-8")) == {"ours": first["ours"], "theirs": first["ours"]}


def test_the_recorded_results_have_the_shape_that_the_command_writes(tmp_path: Path) -> None:
    recorded = json.loads((Path(parity.__file__).parent / "results/parity.json").read_text(encoding="utf-8"))
    one = judge([SURE], [SURE])
    rows = {"sentiment": one, "food": one, "food, scaled": one}
    parity.merge(tmp_path / "now.json", parity.BUILT_IN, rows, {"sentiment": 1, "food": 1})
    now = json.loads((tmp_path / "now.json").read_text(encoding="utf-8"))[parity.BUILT_IN]
    assert recorded[parity.BUILT_IN].keys() == now.keys()
    for entry in recorded.values():
        # What was measured before there was a row for it has none.
        assert now.keys() - {parity.SCALED} <= entry.keys() <= now.keys()
        for name in entry:
            assert entry[name].keys() == now[name].keys()


@pytest.mark.parametrize("arguments", [["--texts", "tweets.tsv"], ["--images", "photos"], ["--data", "tweets"]])
def test_data_of_ones_own_is_named(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parity.main([*arguments, "--json", "parity.json"])
    assert "--json needs --data" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "order"),
    [
        ({"dishes": [{"label": "x", "score": 0.6}, {"label": "a", "score": 0.4}]}, ["x", "a"]),
        ({"label": "b", "score": 0.4, "scores": {"a": 0.4, "b": 0.4, "c": 0.2}}, ["b", "a", "c"]),
        ({"label": "c", "score": 0.1, "scores": {"a": 0.5, "b": 0.4, "c": 0.1}}, ["c", "a", "b"]),
    ],
)
def test_an_answers_own_order_is_judged(body: dict[str, Any], order: list[str]) -> None:
    assert list(parity.scores_of(body)) == order


def test_files_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "texts.tsv").write_text("1\tone\n\nplain\n0\ttwo\tparts\n", encoding="utf-8")
    assert parity.read_texts(tmp_path / "texts.tsv") == ["one", "plain", "two\tparts"]
    for name in ("a.jpg", "b.txt", "deep/c.PNG"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / name, "PNG", icc_profile=b"x" if name == "a.jpg" else None)
    assert parity.read_pictures(tmp_path) == [(tmp_path / "deep/c.PNG").read_bytes()]
    assert len(parity.sample(range(10), 3)) == 3
    assert parity.sample(range(10), None) != list(range(10))
