"""Golden requests: the checkpoint's own answers, as sharp as its precision and no sharper."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from marsmith.errors import GoldenError, RecipeError
from marsmith.evidence.golden import TOLERANCE, Golden, differences, expected_answer, read, record
from marsmith.mar.members import GOLDEN
from marsmith.mar.writer import write_archive
from marsmith.recipe.recipe import Recipe
from tests.tiny import write_recipe

LABELS = ("negative", "neutral", "positive")
PROBABILITIES = np.array([0.1, 0.2, 0.7])


class Fixed:
    """A checkpoint that answers everything alike, and keeps what it was asked."""

    def __init__(self, probabilities: np.ndarray = PROBABILITIES) -> None:
        self.asked: list[str | bytes] = []
        self._probabilities = probabilities

    def __call__(self, body: str | bytes) -> np.ndarray:
        self.asked.append(body)
        return self._probabilities


def recipe(directory: Path, **keys: Any) -> Recipe:
    return Recipe.load(write_recipe(directory, **keys))


def test_samples_become_requests_and_their_names_never_show_a_text(tmp_path: Path) -> None:
    reference = Fixed()
    samples = [{"text": "a private text", "expect": "positive"}, {"text": "another"}]
    golden = record(recipe(tmp_path, samples=samples), LABELS, reference)
    assert reference.asked == ["a private text", "another"]
    assert [one.name for one in golden.requests] == ["text 1", "text 2"]
    assert golden.requests[0].expect["label"] == "positive"
    assert golden.requests[0].expect["scores"] == {"negative": 0.1, "neutral": 0.2, "positive": 0.7}
    assert golden.requests[0].tolerance == TOLERANCE


def test_an_image_travels_whole(tmp_path: Path) -> None:
    (tmp_path / "dish.png").write_bytes(b"the bytes of the file")
    golden = record(recipe(tmp_path, task="food", samples=[{"image": "dish.png"}]), LABELS, Fixed())
    (request,) = golden.requests
    assert request.name == "dish.png"
    assert request.payload() == (b"the bytes of the file", "application/octet-stream")
    assert base64.b64decode(json.loads(golden.to_json())["requests"][0]["image"]) == b"the bytes of the file"
    assert [dish["label"] for dish in request.expect["dishes"]] == ["positive", "neutral", "negative"]


def test_a_sample_that_the_checkpoint_answers_otherwise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"expects neutral for text 1, but the checkpoint answers positive \(0\.70\)"):
        record(recipe(tmp_path, samples=[{"text": "a private text", "expect": "neutral"}]), LABELS, Fixed())


def test_a_sample_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"The sample .*gone\.png cannot be read: No such file"):
        record(recipe(tmp_path, task="food", samples=[{"image": "gone.png"}]), LABELS, Fixed())


def test_a_sample_travels_by_its_path_from_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "dishes").mkdir()
    (tmp_path / "dishes/a.png").write_bytes(b"png")
    golden = record(recipe(tmp_path, task="food", samples=[{"image": "dishes/a.png"}]), LABELS, Fixed())
    assert [one.name for one in golden.requests] == ["dishes/a.png"]
    assert str(tmp_path).encode() not in golden.to_json()


@pytest.mark.parametrize("task", ["sentiment", "food"])
def test_a_recipe_without_samples_gets_probes(tmp_path: Path, task: str) -> None:
    first, again = Fixed(), Fixed()
    golden = record(recipe(tmp_path, task=task), LABELS, first)
    assert len(golden.requests) >= 2
    assert golden.to_json() == record(recipe(tmp_path, task=task), LABELS, again).to_json()
    for body in first.asked:
        if isinstance(body, bytes):
            assert Image.open(io.BytesIO(body)).getextrema() != ((0, 0), (0, 0), (0, 0))


def test_what_is_too_close_to_call_is_left_open(tmp_path: Path) -> None:
    """Another CPU may order two equal scores the other way."""
    close = np.array([0.45, 0.45 + TOLERANCE, 0.1])
    answer = expected_answer(recipe(tmp_path), LABELS, close)
    assert answer == {"scores": {"negative": 0.45, "neutral": 0.4501, "positive": 0.1}}
    tail = np.array([0.2, 0.2, 0.6])
    assert expected_answer(recipe(tmp_path), LABELS, tail)["label"] == "positive"
    food = recipe(tmp_path, task="food", top_k=2)
    assert expected_answer(food, LABELS, tail) == {"dishes": [{"label": "positive", "score": 0.6}, {"score": 0.2}]}
    assert [one["label"] for one in expected_answer(food, LABELS, PROBABILITIES)["dishes"]] == ["positive", "neutral"]


EXPECTED = {"label": "a", "scores": {"a": 0.7, "b": 0.3}, "dishes": [{"label": "x"}]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, None),
        ({"tokens": 7}, None),
        ({"scores": {"a": 0.70009, "b": 0.29991, "c": 0}}, None),
        ({"dishes": [{"label": "x", "nutrition": None}, {"label": "y"}]}, None),
        ({"label": "b"}, "answer.label is 'b', not 'a'"),
        ({"label": None}, "answer.label is None, not 'a'"),
        ({"scores": {"a": 0.7002, "b": 0.3}}, "answer.scores.a is 0.7002, not 0.7"),
        ({"scores": {"a": float("nan"), "b": 0.3}}, "answer.scores.a is nan, not 0.7"),
        ({"scores": {"a": True, "b": 0.3}}, "answer.scores.a is True, not 0.7"),
        ({"scores": {"a": 10**400, "b": 0.3}}, f"answer.scores.a is {10**400!r}, not 0.7"),
        ({"scores": {"a": 0.7}}, "answer.scores.b is missing"),
        ({"scores": [0.7, 0.3]}, "answer.scores is a list of 2, not a dict of 2"),
        ({"dishes": []}, "answer.dishes is a list of 0, not a list of 1"),
        ({"dishes": [{"label": "z"}]}, "answer.dishes[0].label is 'z', not 'x'"),
    ],
)
def test_differences_are_named_by_their_place(change: dict[str, Any], says: str | None) -> None:
    assert list(differences(EXPECTED, EXPECTED | change, 1e-4)) == ([says] if says else [])


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("got", "says"),
    [({"unit": None}, None), ({}, "answer.unit is missing"), ({"unit": 0}, "answer.unit is 0, not None")],
)
def test_a_null_is_not_what_is_missing(got: dict[str, Any], says: str | None, whole: bool) -> None:
    assert list(differences({"unit": None}, got, 1e-4, whole=whole)) == ([says] if says else [])


@pytest.mark.parametrize(
    ("got", "says"),
    [
        ({"sum": 1, "all": [1]}, None),
        ({"sum": 1, "all": [1], "more": 2}, "answer.more is not expected"),
        ({"sum": 1, "all": [1, 2]}, "answer.all is a list of 2, not a list of 1"),
        ({"sum": 1}, "answer.all is missing"),
    ],
)
def test_a_whole_answer_holds_nothing_more(got: dict[str, Any], says: str | None) -> None:
    assert list(differences({"sum": 1, "all": [1]}, got, 1e-4, whole=True)) == ([says] if says else [])


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        (41234.5, 41238.0, True),  # fp32 has seven digits, so a tolerance of 1e-4 asks more than it holds
        (41234.5, 41239.0, False),
        (0.5, 0.50011, False),
        (41234, 41235, False),  # a count is exact
    ],
)
def test_the_tolerance_of_a_large_number_is_a_share_of_it(expected: float, got: float, same: bool) -> None:
    assert (not list(differences(expected, got, 1e-4))) == same


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(JSON, JSON)
def test_nothing_differs_from_itself_and_anything_can_be_compared(one: Any, other: Any) -> None:
    assert list(differences(one, one, 0)) == []
    list(differences(one, other, 1e-4))


def test_an_archive_without_golden_requests_has_none(tmp_path: Path) -> None:
    path = tmp_path / "m.mar"
    write_archive(path, {})
    assert read(path) is None


REQUEST = {"name": "text 1", "text": "hm", "expect": {"label": "a"}, "tolerance": 1e-4}


def golden_json(**change: Any) -> bytes:
    return json.dumps({"requests": [{key: one for key, one in (REQUEST | change).items() if one is not ...}]}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b'{"format": 2, "requests": []}',
        golden_json(name=1),
        golden_json(text=...),
        golden_json(image="aGk="),
        golden_json(text=..., image="no base64!"),
        golden_json(expect={}),
        golden_json(tolerance=float("inf")),
        golden_json(tolerance=float("nan")),
        golden_json(tolerance=1),
        golden_json(tolerance=-1),
        golden_json(expect=None),
        golden_json(expect=[]),
        golden_json(json={"a": 1}),
    ],
    ids=range(16),
)
def test_golden_requests_that_are_none_are_one_sentence(tmp_path: Path, content: bytes) -> None:
    from pathlib import PurePosixPath

    path = tmp_path / "m.mar"
    write_archive(path, {PurePosixPath(GOLDEN): content})
    with pytest.raises(GoldenError, match=r"golden\.json of .* is not readable"):
        read(path)


def test_the_file_is_readable_json(tmp_path: Path) -> None:
    golden = record(recipe(tmp_path, samples=[{"text": "hm"}]), LABELS, Fixed())
    assert Golden.model_validate(json.loads(golden.to_json())) == golden
    assert "image" not in json.loads(golden.to_json())["requests"][0]
