import math

import pytest
import torch

from training.food.augment import Mixture
from training.food.losses import feature_loss, hard_loss, soft_loss, split_tokens
from training.food.sources import UNLABELLED


def test_a_student_that_agrees_with_its_teacher_pays_nothing() -> None:
    answers = torch.tensor([[2.0, 0.0], [-1.0, 4.0]])
    assert float(soft_loss(answers, answers + 3, 2.0)) == pytest.approx(0, abs=1e-6)


def test_the_soft_loss_is_the_divergence_at_temperature_two_times_four() -> None:
    student, teacher = torch.tensor([[0.0, 0.0]]), torch.tensor([[2 * math.log(3.0), 0.0]])
    # Softened teacher: 3/4, 1/4; student: 1/2, 1/2.
    divergence = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert float(soft_loss(student, teacher, 2.0)) == pytest.approx(4 * divergence, rel=1e-5)


def test_a_mixed_view_pays_for_both_labels_by_their_shares() -> None:
    logits = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
    mixture = Mixture(torch.tensor([0.75, 0.75]), torch.tensor([1, 0]))
    first = 0.75 * -math.log(0.75) + 0.25 * -math.log(0.25)
    wanted = (first + math.log(2)) / 2
    assert float(hard_loss(logits, torch.tensor([0, 1]), mixture)) == pytest.approx(wanted, rel=1e-5)


def test_smoothing_spreads_a_share_of_the_label() -> None:
    logits = torch.tensor([[math.log(3.0), 0.0]])
    wanted = 0.9 * -math.log(0.75) + 0.1 * (-math.log(0.75) - math.log(0.25)) / 2
    assert float(hard_loss(logits, torch.tensor([0]), smoothing=0.1)) == pytest.approx(wanted, rel=1e-5)


def test_an_unlabelled_photo_costs_nothing() -> None:
    logits = torch.tensor([[math.log(3.0), 0.0], [5.0, 0.0]])
    assert float(hard_loss(logits, torch.tensor([0, UNLABELLED]))) == pytest.approx(-math.log(0.75) / 2, rel=1e-5)


def test_features_are_compared_whitened() -> None:
    teacher = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    white = torch.nn.functional.layer_norm(teacher, (8,))
    assert float(feature_loss(white, 7 * teacher + 3)) == pytest.approx(0, abs=1e-5)
    # Of zeros, each of the two parts is the mean square of whitened features, 1.
    assert float(feature_loss(torch.zeros_like(teacher), teacher)) == pytest.approx(2, abs=1e-3)


def test_a_grid_of_another_size_and_further_tokens_are_fitted() -> None:
    teacher = torch.randn(2, 1 + 16, 8, generator=torch.Generator().manual_seed(1))
    cls, grid = split_tokens(torch.arange(2 * 6 * 8.0).view(2, 6, 8))  # class, distillation, 4 patches
    assert cls[0, 0] == 0
    assert grid.shape == (2, 8, 2, 2)
    assert grid[0, 0].flatten().tolist() == [16, 24, 32, 40]
    assert torch.isfinite(feature_loss(torch.zeros(2, 6, 8), teacher))
