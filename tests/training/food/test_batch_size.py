import pytest
import torch

from training.errors import TrainingError
from training.food.batch_size import FitsCpu, find, largest


@pytest.mark.parametrize(("limit", "multiple", "wanted"), [(100, 1, 37), (100, 4, 36), (20, 1, 20), (37, 1, 37)])
def test_the_largest_that_fits_is_found(limit: int, multiple: int, wanted: int) -> None:
    assert largest(lambda batch: batch <= 37, multiple, limit) == wanted


def test_few_trials_are_made_and_none_beyond_twice_what_fits() -> None:
    tried = list[int]()

    def fits(batch: int) -> bool:
        tried.append(batch)
        return batch <= 1152

    assert largest(fits, 1, 100_000) == 1152
    assert len(tried) < 24
    assert max(tried) <= 2048


def test_nothing_that_fits_is_a_mistake() -> None:
    with pytest.raises(TrainingError, match="Not even a batch of 2 fits"):
        largest(lambda _: False, 2, 100)


def step(batch: int) -> None:
    """Keep a matrix of 1000 floats a photo, and the weights, for the backward pass."""
    weight = torch.zeros(1000, 1000, requires_grad=True)
    (torch.ones(batch, 1000) @ weight).sum().backward()  # type: ignore[no-untyped-call]


def test_a_cpus_limit_is_foretold_from_small_steps() -> None:
    fits = FitsCpu(step, 1, 4_000 * 50)
    assert fits.each == 4_000
    assert find(step, 1, 1000, torch.device("cpu"), int(fits.fixed) + 4_000 * 50) == 50


@pytest.mark.slow
def test_a_gpus_error_ends_the_search_and_no_other_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)

    def trial(batch: int) -> None:
        if batch > 11:
            raise torch.cuda.OutOfMemoryError

    assert find(trial, 1, 100, torch.device("cuda"), None) == 11

    def broken(_: int) -> None:
        raise RuntimeError("no kernel")

    with pytest.raises(RuntimeError, match="no kernel"):
        find(broken, 1, 100, torch.device("cuda"), None)
