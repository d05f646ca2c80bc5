import pytest
import torch

from training.food.ema import Average


def weight_of(average: Average) -> float:
    return average.model.get_parameter("weight").item()


def test_the_average_moves_by_what_its_decay_leaves() -> None:
    model = torch.nn.Linear(1, 1)
    model.weight.data.fill_(0.0)
    average = Average(model, 0.9)
    model.weight.data.fill_(1.0)
    average.update(model, step=10_000)
    assert weight_of(average) == pytest.approx(0.1)
    average.update(model, step=10_001)
    assert weight_of(average) == pytest.approx(0.19)
    assert model.weight.item() == 1.0


def test_the_start_is_soon_forgotten() -> None:
    model = torch.nn.Linear(1, 1)
    model.weight.data.fill_(0.0)
    average = Average(model, 0.999)
    model.weight.data.fill_(1.0)
    average.update(model, step=0)
    assert weight_of(average) == pytest.approx(0.9)


def test_buffers_are_those_of_the_network() -> None:
    model = torch.nn.BatchNorm1d(1)
    average = Average(model, 0.9)
    model(torch.full((4, 1), 5.0))
    average.update(model, step=10_000)
    assert average.model.num_batches_tracked == 1
    assert average.model.running_mean == model.running_mean != 0
