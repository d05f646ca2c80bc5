"""What changed between two archives, by meaning and by member."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from marsmith.builder import Built
from marsmith.diff import Change, diff
from marsmith.mar.members import DIGESTS, GOLDEN, MANIFEST
from marsmith.mar.writer import write_archive
from tests.packaging.forgery import members, unpacked

Files = dict[str, bytes]


def edited(archive: Built, out: Path, edit: Callable[[Files], None]) -> Path:
    files = dict(unpacked(archive.path.read_bytes()))
    del files[DIGESTS]
    edit(files)
    write_archive(out, members(files))
    return out


def of_kind(changes: list[Change], kind: str) -> list[tuple[str, str, str]]:
    return [(one.what, one.before, one.after) for one in changes if one.kind == kind]


def edit_json(files: Files, name: str, edit: Callable[[Any], None]) -> None:
    value = json.loads(files[name])
    edit(value)
    files[name] = json.dumps(value).encode()


def test_an_archive_does_not_differ_from_itself(food_archive: Built) -> None:
    assert diff(food_archive.path, food_archive.path) == []


def test_code_and_weights_are_told_apart(food_archive: Built, tmp_path: Path) -> None:
    def edit(files: Files) -> None:
        files["handlers/base.py"] += b"# changed\n"
        files["model/model.weights"] = files["model/model.weights"][::-1]
        del files["handlers/errors.py"]

    changes = diff(food_archive.path, edited(food_archive, tmp_path / "m.mar", edit))
    assert [what for what, _, _ in of_kind(changes, "code")] == ["handlers/base.py", "handlers/errors.py"]
    assert of_kind(changes, "code")[1][2] == ""
    ((what, before, after),) = of_kind(changes, "weights")
    assert (what, len(before), len(after)) == ("model/model.weights", 64, 64)
    assert of_kind(changes, "member")[0][0] == DIGESTS


def test_settings_are_compared_by_key(food_archive: Built, tmp_path: Path) -> None:
    def edit(files: Files) -> None:
        config = yaml.safe_load(files["model-config.yaml"]) | {"minWorkers": 2, "maxWorkers": 2}
        del config["useVenv"]
        files["model-config.yaml"] = yaml.safe_dump(config).encode()
        files["requirements.txt"] = files["requirements.txt"].replace(b"numpy==", b"numpy==9.")

    changes = diff(food_archive.path, edited(food_archive, tmp_path / "m.mar", edit))
    assert of_kind(changes, "config") == [("maxWorkers", "1", "2"), ("minWorkers", "1", "2"), ("useVenv", "False", "")]
    ((what, before, after),) = of_kind(changes, "requirements")
    assert (what, after) == ("numpy", f"9.{before}")


def test_labels_are_compared_as_a_list(food_archive: Built, tmp_path: Path) -> None:
    def turn(serving: dict[str, Any]) -> None:
        serving["labels"].reverse()

    def rename(serving: dict[str, Any]) -> None:
        serving["labels"][0] = "quince"

    other = edited(food_archive, tmp_path / "a.mar", lambda files: edit_json(files, "model/serving.json", turn))
    assert of_kind(diff(food_archive.path, other), "labels") == [
        ("order", "apple, pear, plum", "plum, pear, apple"),
    ]
    other = edited(food_archive, tmp_path / "b.mar", lambda files: edit_json(files, "model/serving.json", rename))
    assert of_kind(diff(food_archive.path, other), "labels") == [
        ("label removed", "apple", ""),
        ("label added", "", "quince"),
    ]


def test_golden_answers_are_compared_with_their_tolerance(food_archive: Built, tmp_path: Path) -> None:
    def edit(golden: dict[str, Any]) -> None:
        golden["requests"][0]["expect"]["dishes"][0]["score"] += 1e-5
        golden["requests"][1]["expect"]["dishes"][0]["score"] = 0.5

    other = edited(food_archive, tmp_path / "m.mar", lambda files: edit_json(files, GOLDEN, edit))
    ((what, _, after),) = of_kind(diff(food_archive.path, other), "golden")
    assert what == "probe 2"
    assert after.startswith("answer.dishes[0].score is 0.5, not ")


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (
            lambda request: request["expect"].update(unit="kcal"),
            ("answer.unit is not expected", "answer.unit is missing"),
        ),
        (
            lambda request: request["expect"].update(unit=None),
            ("answer.unit is not expected", "answer.unit is missing"),
        ),
        (
            lambda one: one["expect"]["dishes"].pop(),
            ("answer.dishes is a list of 2, not a list of 3", "answer.dishes is a list of 3, not a list of 2"),
        ),
    ],
)
def test_what_is_expected_more_or_less_is_a_change(
    food_archive: Built, tmp_path: Path, edit: Callable[[Any], None], says: tuple[str, str], turned: bool
) -> None:
    other = edited(
        food_archive,
        tmp_path / "m.mar",
        lambda files: edit_json(files, GOLDEN, lambda golden: edit(golden["requests"][0])),
    )
    pair = (other, food_archive.path) if turned else (food_archive.path, other)
    assert of_kind(diff(*pair), "golden") == [("probe 1", "", says[turned])]


def test_an_answer_that_is_expected_whole_is_a_change(food_archive: Built, tmp_path: Path) -> None:
    def edit(golden: dict[str, Any]) -> None:
        golden["requests"][0]["whole"] = True
        golden["requests"][1]["whole"] = False

    other = edited(food_archive, tmp_path / "m.mar", lambda files: edit_json(files, GOLDEN, edit))
    assert of_kind(diff(food_archive.path, other), "golden") == [("probe 1 whole", "False", "True")]


def test_another_question_is_said_without_showing_it(sentiment_archive: Built, tmp_path: Path) -> None:
    def edit(golden: dict[str, Any]) -> None:
        golden["requests"][0]["text"] = "a private text"
        golden["requests"][1]["tolerance"] = 0.01

    other = edited(sentiment_archive, tmp_path / "m.mar", lambda files: edit_json(files, GOLDEN, edit))
    changes = of_kind(diff(sentiment_archive.path, other), "golden")
    assert changes == [("probe 1 asks something else", "", ""), ("probe 2 tolerance", "0.0001", "0.01")]


def test_two_models_differ_in_what_they_are(food_archive: Built, sentiment_archive: Built) -> None:
    changes = diff(food_archive.path, sentiment_archive.path)
    assert ("task", "food", "sentiment") in of_kind(changes, "model")
    assert ("probe 3 added", "", "") in of_kind(changes, "golden")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_archive_by_others_can_be_compared(food_archive: Built, tmp_path: Path, order: tuple[int, int]) -> None:
    manifest = json.dumps({"model": {"modelName": "m", "handler": "m.py"}}).encode()
    write_archive(tmp_path / "m.mar", members({"m.py": b"", MANIFEST: manifest}))
    pair = (food_archive.path, tmp_path / "m.mar")
    assert {change.kind for change in diff(pair[order[0]], pair[order[1]])} >= {"model", "labels", "weights", "code"}
