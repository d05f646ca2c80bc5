"""A quantised network is packed only where it agrees with the checkpoint, and the archive says how well it does."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marsmith.builder import Built, build
from marsmith.errors import AccuracyError, CheckpointError, ExportError, RecipeError
from marsmith.evidence.accuracy import Accuracy
from marsmith.evidence.golden import MAX_TOLERANCE, TOLERANCE, read, tolerance_of
from marsmith.evidence.provenance import inputs
from marsmith.inspection import inspect
from marsmith.lint import lint_recipe
from marsmith.mar.members import ACCURACY
from marsmith.mar.reader import open_archive, read_json
from marsmith.network.precision import compare
from marsmith.recipe.calibration import calibration
from marsmith.recipe.checkpoint import resolve
from marsmith.recipe.recipe import AccuracyLimits, Recipe
from tests.tiers import builds
from tests.tiny import CORPUS, food_checkpoint, sentiment_checkpoint, write_recipe

TEXTS = [f"{text} {word}" for text in CORPUS for word in ("again", "today", "😀", "http", "i am tired", "never", "so")]
SECRET = "words that nobody else may read"
# A random network of 32 numbers a token is a coarse one.
LOOSE = {"inputs": "texts.txt", "min_label_agreement": 0.5, "max_probability_change": 1}


def recipe_with(directory: Path, limits: Mapping[str, Any] = LOOSE, **keys: Any) -> Path:
    """The recipe of a tiny text classifier in int8."""
    recipe = write_recipe(sentiment_checkpoint(directory, "roberta"), precision="int8", **keys)
    (directory / "texts.txt").write_text("\n".join([*TEXTS, SECRET]), encoding="utf-8")
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in limits.items())
    recipe.write_text(f"{recipe.read_text(encoding='utf-8')}\n[accuracy]\n{lines}", encoding="utf-8")
    return recipe


@pytest.fixture(scope="module")
@builds
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    directory = tmp_path_factory.mktemp("int8")
    return build(recipe_with(directory), directory / "out")


def logits(*rows: list[float]) -> Any:
    """A network that answers with these logits, one row a run."""
    answers = iter(rows)
    return lambda _feeds: np.array([next(answers)])


def test_labels_that_agree_and_the_largest_change_are_counted() -> None:
    exact = logits([2.0, 0.0], [0.0, 3.0], [0.0, 1.0], [1.0, 0.0])
    reduced = logits([2.0, 0.0], [0.0, 2.0], [1.0, 0.0], [1.0, 0.1])
    found = compare(exact, reduced, "int8", [{}] * 4)
    change = 1 / (1 + np.exp(-1.0)) - 1 / (1 + np.exp(1.0))
    assert (found.precision, found.inputs, found.label_agreement) == ("int8", 4, 0.75)
    assert change <= found.max_probability_change <= change + 1.1e-4


def test_logits_that_are_not_finite_are_as_far_as_can_be() -> None:
    found = compare(logits([2.0, 0.0]), logits([float("nan"), 0.0]), "int8", [{}])
    assert (found.label_agreement, found.max_probability_change) == (0, 1)


@pytest.mark.parametrize(
    ("agreement", "change", "says"),
    [
        (0.99, 0.1, None),
        (1.0, 0.0, None),
        (
            0.9899,
            0.0,
            r"gives 98.99% of 200 inputs the checkpoint's label, and the recipe asks for 99.00%: set another",
        ),
        (1.0, 0.1001, r"a probability is 0.1001 from the checkpoint's, and the recipe allows 0.1000: set another"),
        (1.0, 1.0, "a probability is 1.0000 from"),
    ],
)
def test_a_network_is_refused_beyond_the_limits(agreement: float, change: float, says: str | None) -> None:
    accuracy = Accuracy(precision="int8", inputs=200, label_agreement=agreement, max_probability_change=change)
    limits = AccuracyLimits(inputs=Path("texts.txt"))
    if says is None:
        accuracy.require(limits)
    else:
        with pytest.raises(AccuracyError, match=says):
            accuracy.require(limits)


def test_the_archive_says_how_accurate_it_is(built: Built) -> None:
    assert built.accuracy is not None
    assert built.accuracy.inputs == len(TEXTS) + 1
    assert 0 < built.accuracy.max_probability_change < 1
    assert read_json(built.path, ACCURACY) == built.accuracy.model_dump()
    card = inspect(built.path)
    assert card.precision == "int8"
    assert card.accuracy == {key: value for key, value in built.accuracy.model_dump().items() if key != "precision"}


def test_the_archive_does_not_hold_what_it_was_compared_on(built: Built) -> None:
    with open_archive(built.path) as zip_file:
        assert all(SECRET.encode() not in zip_file.read(name) for name in zip_file.namelist())


def test_golden_answers_are_the_checkpoint_s_within_what_the_recipe_allows(built: Built) -> None:
    golden = read(built.path)
    assert golden is not None
    assert {request.tolerance for request in golden.requests} == {MAX_TOLERANCE}
    assert built.golden == len(golden.requests) > 0


@pytest.mark.parametrize(
    ("precision", "change", "tolerance"),
    [
        ("int8", 0.03, 0.03),
        ("int8", 0.5, MAX_TOLERANCE),
        ("int8", 0, TOLERANCE),
        ("bf16", 0.03, 0.01),
        ("fp32", 0.03, 1e-4),
    ],
)
def test_the_tolerance_is_as_sharp_as_the_precision(
    tmp_path: Path, precision: str, change: float, tolerance: float
) -> None:
    recipe = Recipe.load(recipe_with(tmp_path, {"inputs": "texts.txt", "max_probability_change": change}))
    assert tolerance_of(recipe.model_copy(update={"precision": precision})) == tolerance


def test_two_builds_give_the_same_bytes(built: Built, tmp_path: Path) -> None:
    again = build(recipe_with(tmp_path), tmp_path / "out")
    assert again.path.read_bytes() == built.path.read_bytes()


@pytest.mark.build
def test_a_network_too_far_from_the_checkpoint_is_not_packed(tmp_path: Path) -> None:
    recipe = recipe_with(tmp_path, LOOSE | {"max_probability_change": 0})
    with pytest.raises(AccuracyError, match=r"accuracy\.max_probability_change to what you can accept") as caught:
        build(recipe, tmp_path / "out")
    assert SECRET not in str(caught.value)
    assert not list((tmp_path / "out").glob("*"))


def test_the_provenance_names_what_it_was_compared_on(tmp_path: Path) -> None:
    recipe = Recipe.load(recipe_with(tmp_path))
    assert "texts.txt" in inputs(recipe, None)
    directory = food_checkpoint(tmp_path / "food")
    food = Recipe.load(write_recipe(directory, task="food", precision="int8", accuracy={"inputs": "photos"}))
    for name in ("b.jpg", "more/a.jpg"):
        (directory / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / "photos" / name).write_bytes(b"x")
    assert {"photos/b.jpg", "photos/more/a.jpg"} <= inputs(food, None).keys()
    assert [body for _, body in calibration(food)] == [b"x", b"x"]


@pytest.mark.build
def test_an_image_that_is_none_is_named(tmp_path: Path) -> None:
    directory = food_checkpoint(tmp_path / "food")
    (directory / "photos").mkdir()
    (directory / "photos" / "Thumbs.db").write_bytes(b"no image")
    recipe = write_recipe(directory, task="food", precision="int8", accuracy={"inputs": "photos"})
    with pytest.raises(RecipeError, match=r"Of accuracy.inputs, \S+Thumbs.db cannot be read: take it out"):
        build(recipe, tmp_path / "out")


def test_lint_finds_inputs_that_are_not_there(tmp_path: Path) -> None:
    recipe = recipe_with(tmp_path, {"inputs": "nowhere.txt"})
    assert [one.where for one in lint_recipe(recipe) if one.code == "M605"] == ["accuracy.inputs"]


@pytest.mark.parametrize("problem", ["regression", "multi_label_classification"])
def test_answers_that_are_no_label_of_several_have_no_int8(tmp_path: Path, problem: str) -> None:
    """With a handler of one's own they are served, but how far int8 is from them cannot be told."""
    recipe = recipe_with(tmp_path, handler="own.py", samples=[{"text": "ok", "expect": {"x": 1}}])
    (tmp_path / "own.py").write_text("from sentiment import SentimentHandler\n", encoding="utf-8")
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"problem_type": problem}), encoding="utf-8")
    with pytest.raises(CheckpointError, match="how far int8 is from it cannot be told"):
        resolve(Recipe.load(recipe))


@pytest.mark.parametrize(
    "numbers", [{"inputs": 0}, {"inputs": "x"}, {"label_agreement": 10**400}, {"max_probability_change": float("nan")}]
)
def test_a_forged_accuracy_is_not_shown(built: Built, tmp_path: Path, numbers: dict[str, Any]) -> None:
    forged = tmp_path / "forged.mar"
    with zipfile.ZipFile(built.path) as source, zipfile.ZipFile(forged, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == ACCURACY:
                content = json.dumps(json.loads(content) | numbers).encode()
            target.writestr(name, content)
    assert inspect(forged).accuracy == {}


@pytest.mark.build
def test_a_network_that_pytorch_runs_has_no_int8(tmp_path: Path) -> None:
    """FNet's graph is not exported, so there is nothing to quantise."""
    directory = sentiment_checkpoint(tmp_path, "fnet")
    (tmp_path / "texts.txt").write_text("ok", encoding="utf-8")
    recipe = write_recipe(directory, precision="int8", accuracy={"inputs": "texts.txt"})
    with pytest.raises(ExportError, match=r"runs in PyTorch, which has no int8 here: set precision = \"fp32\"\."):
        build(recipe, tmp_path / "out")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, r"There is no file with one text a line at \S+texts.txt: correct accuracy.inputs"),
        (b"", r"There is no text in \S+texts.txt: write one a line"),
        (b"\n  \n\t\n", r"There is no text in \S+texts.txt"),
        (
            b"ok\n\xff\xfe",
            r"The file \S+texts.txt of accuracy.inputs cannot be read: it is not UTF-8 text \(byte 3\)",
        ),
    ],
)
def test_texts_that_cannot_be_used_are_named(tmp_path: Path, content: bytes | None, says: str) -> None:
    recipe = Recipe.load(recipe_with(tmp_path))
    (tmp_path / "texts.txt").unlink()
    if content is not None:
        (tmp_path / "texts.txt").write_bytes(content)
    with pytest.raises(RecipeError, match=says):
        list(calibration(recipe))


def test_texts_are_lines_without_the_empty_ones(tmp_path: Path) -> None:
    recipe = Recipe.load(recipe_with(tmp_path))
    content = "\ufeffone\r\n\n two \nthree\u2028and \x85more"
    (tmp_path / "texts.txt").write_text(content, encoding="utf-8", newline="")
    assert [body for _, body in calibration(recipe)] == ["one", " two ", "three\u2028and \x85more"]


def test_images_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    directory = food_checkpoint(tmp_path / "food")
    recipe = Recipe.load(write_recipe(directory, task="food", precision="int8", accuracy={"inputs": "photos"}))
    with pytest.raises(RecipeError, match=r"There is no directory of images at \S+photos: correct accuracy.inputs"):
        list(calibration(recipe))
    (directory / "photos").mkdir()
    with pytest.raises(RecipeError, match=r"There is no image in \S+photos: put some there"):
        list(calibration(recipe))
