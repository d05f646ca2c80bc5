"""Scores of small label lists worked out by hand."""

import numpy as np
import pytest

from training.metrics import Scores, confusion, table

LABELS = [0, 0, 0, 0, 1, 1, 2, 2]
GUESSES = [0, 0, 0, 1, 1, 2, 2, 2]


def test_confusion_has_labels_as_rows_and_predictions_as_columns() -> None:
    assert confusion(LABELS, GUESSES, 3).tolist() == [[3, 1, 0], [0, 1, 1], [0, 0, 2]]


def test_scores_are_those_worked_out_by_hand() -> None:
    scores = Scores.of(LABELS, GUESSES, 3)
    assert scores.accuracy == pytest.approx(6 / 8)
    assert scores.recall == pytest.approx((3 / 4, 1 / 2, 1))
    assert scores.macro_recall == pytest.approx((3 / 4 + 1 / 2 + 1) / 3)
    assert scores.macro_f1 == pytest.approx((6 / 7 + 2 / 4 + 4 / 5) / 3)  # 2 hits / (labelled + predicted)


def test_scores_agree_with_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    dice = np.random.default_rng(7)
    labels, guesses = dice.integers(0, 3, 500), dice.integers(0, 3, 500)
    scores = Scores.of(labels, guesses, 3)
    assert scores.accuracy == pytest.approx(sklearn.accuracy_score(labels, guesses))
    assert scores.recall == pytest.approx(sklearn.recall_score(labels, guesses, average=None))
    assert scores.macro_recall == pytest.approx(sklearn.balanced_accuracy_score(labels, guesses))
    assert scores.macro_f1 == pytest.approx(sklearn.f1_score(labels, guesses, average="macro"))


def test_always_guessing_one_class_of_three_has_macro_recall_of_a_third() -> None:
    scores = Scores.of([0, 1, 1, 1, 2], [1] * 5, 3)
    assert scores.macro_recall == pytest.approx(1 / 3)
    assert scores.accuracy == pytest.approx(3 / 5)
    assert scores.macro_f1 == pytest.approx((2 * 3 / 8) / 3)


def test_a_class_that_never_occurs_scores_zero_instead_of_dividing_by_zero() -> None:
    scores = Scores.of([0, 1], [0, 1], 3)
    assert scores.recall == (1.0, 1.0, 0.0)
    assert scores.macro_f1 == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("labels", "guesses", "says"),
    [
        ([], [], "at least one"),
        ([0, 1], [0], "as many predictions as labels"),
        ([0, 3], [0, 1], r"0\.\.2"),
        ([0, 1], [0, -1], r"0\.\.2"),
    ],
)
def test_what_cannot_be_scored_is_refused(labels: list[int], guesses: list[int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Scores.of(labels, guesses, 3)


def test_the_table_has_a_row_for_each_list_of_predictions() -> None:
    assert table([0, 0, 1, 1], {"right": [0, 0, 1, 1], "half": [0, 1, 0, 1]}, ["no", "yes"]).splitlines() == [
        "|  | macro recall | macro F1 | accuracy | recall no | recall yes |",
        "|---|---:|---:|---:|---:|---:|",
        "| right | 1.0000 | 1.0000 | 1.0000 | 1.0000 | 1.0000 |",
        "| half | 0.5000 | 0.5000 | 0.5000 | 0.5000 | 0.5000 |",
    ]
