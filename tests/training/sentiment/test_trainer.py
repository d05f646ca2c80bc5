"""The weights of classes in the loss, worked out by hand."""

import numpy as np
import pytest

from training.sentiment.trainer import weights


def test_balance_weighs_classes_by_their_inverse_share() -> None:
    counts = np.array([10, 20, 70])
    assert weights(counts, 0.0).tolist() == [1, 1, 1]
    assert weights(counts, 1.0).tolist() == pytest.approx([100 / 30, 100 / 60, 100 / 210])
    assert weights(counts, 0.5).tolist() == pytest.approx(np.sqrt([100 / 30, 100 / 60, 100 / 210]).tolist())


def test_classes_of_one_size_weigh_one() -> None:
    assert weights(np.array([5, 5, 5]), 1.0).tolist() == pytest.approx([1, 1, 1])


def test_an_absent_class_has_no_weight() -> None:
    assert weights(np.array([5, 0, 5]), 1.0).tolist() == pytest.approx([2 / 3, 0, 2 / 3])
