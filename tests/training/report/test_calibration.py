"""Calibration worked out by hand."""

import numpy as np
import pytest

from training.report.calibration import Calibration, softmax


def test_the_error_is_the_gap_between_confidence_and_accuracy() -> None:
    probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]])
    found = Calibration.of(probabilities, np.array([0, 1, 1, 1]), bins=10)
    assert found.counts == (2, 2)
    assert found.confidence == pytest.approx((0.6, 0.9))
    assert found.accuracy == pytest.approx((1.0, 0.5))
    assert found.ece == pytest.approx(0.5 * 0.4 + 0.5 * 0.4)


def test_who_is_as_often_right_as_sure_has_no_error() -> None:
    probabilities = np.array([[0.75, 0.25]] * 4)
    assert Calibration.of(probabilities, np.array([0, 0, 0, 1])).ece == pytest.approx(0)


def test_full_confidence_has_its_bin() -> None:
    found = Calibration.of(np.array([[1.0, 0.0]]), np.array([1]))
    assert (found.counts, found.ece) == ((1,), 1.0)


def test_nothing_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Calibration.of(np.zeros((0, 3)), np.zeros(0, np.int64))


def test_softmax_of_large_logits_is_finite() -> None:
    assert softmax(np.array([[1000.0, 1000.0], [0.0, np.log(3.0)]])) == pytest.approx(
        np.array([[0.5, 0.5], [0.25, 0.75]])
    )
