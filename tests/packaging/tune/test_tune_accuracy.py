"""What is known of an archive's accuracy: its build's own figures, else its golden requests."""

from pathlib import Path
from typing import Any

import pytest

from marsmith.evidence import accuracy as gate
from marsmith.evidence.replay import Outcome
from marsmith.mar.members import ACCURACY
from marsmith.rest.client import Prediction
from marsmith.tune.accuracy import Accuracy, accuracy

EXPECTED = {"label": "good", "score": 0.75, "scores": {"good": 0.75, "bad": 0.25}}


def outcome(body: Any, *differences: str, status: int = 200) -> Outcome:
    return Outcome("text 1", EXPECTED, Prediction(status, body), list(differences))


def test_golden_requests_give_the_share_that_is_right_and_the_largest_change(tmp_path: Path) -> None:
    near = {**EXPECTED, "scores": {"good": 0.7501, "bad": 0.2499}}
    far = {**EXPECTED, "label": "bad", "scores": {"good": 0.5, "bad": 0.5}}
    found = accuracy(tmp_path, [outcome(EXPECTED), outcome(near), outcome(far, "answer.label")])
    assert found.inputs == 3
    assert found.label_agreement == pytest.approx(2 / 3)
    assert found.max_probability_change == pytest.approx(0.25)


def test_a_list_is_compared_element_by_element(tmp_path: Path) -> None:
    dishes = {"dishes": [{"label": "pie", "score": 0.9}]}
    got = {"dishes": [{"label": "pie", "score": 0.8}, {"label": "tart", "score": 0.1}]}
    found = accuracy(tmp_path, [Outcome("a.jpg", dishes, Prediction(200, got), [])])
    assert found.max_probability_change == pytest.approx(0.1)


def test_an_answer_of_another_form_is_wrong_and_changes_nothing(tmp_path: Path) -> None:
    found = accuracy(tmp_path, [outcome({"message": "no"}, "status 500: no", status=500), outcome(None, "null")])
    assert found == Accuracy(2, 0.0, 0.0)


def test_the_builds_own_figures_come_first(tmp_path: Path) -> None:
    said = gate.Accuracy(precision="int8", inputs=500, label_agreement=0.996, max_probability_change=0.03)
    file = tmp_path / ACCURACY
    file.parent.mkdir()
    file.write_bytes(said.to_json())
    assert accuracy(tmp_path, [outcome(EXPECTED)]) == Accuracy(500, 0.996, 0.03)


@pytest.mark.parametrize("content", ["{}", "no JSON", '{"inputs": null}', "[]"])
def test_figures_that_cannot_be_read_are_as_good_as_none(tmp_path: Path, content: str) -> None:
    file = tmp_path / ACCURACY
    file.parent.mkdir()
    file.write_text(content)
    assert accuracy(tmp_path, [outcome(EXPECTED)]) == Accuracy(1, 1.0, 0.0)
