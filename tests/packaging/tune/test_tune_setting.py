"""What is tried, and in which order."""

import platform
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from marsmith.errors import TuneError
from marsmith.recipe.recipe import Recipe
from marsmith.tune.setting import Choices, Setting, precisions_of, workers_of
from tests.tiny import write_recipe

KNOWN = get_args(Recipe.model_fields["precision"].annotation)


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return Recipe.load(write_recipe(tmp_path, serving={"batch_size": 8, "max_batch_delay_ms": 5}))


@pytest.fixture
def custom(tmp_path: Path) -> Recipe:
    samples = [{"text": "good"}]
    return Recipe.load(write_recipe(tmp_path, task="custom", checkpoint=..., handler="echo.py", samples=samples))


@pytest.mark.parametrize(("cores", "workers"), [(1, (1,)), (2, (1, 2)), (6, (1, 2, 4)), (8, (1, 2, 4, 8))])
def test_workers_double_up_to_the_cores(cores: int, workers: tuple[int, ...]) -> None:
    assert workers_of(cores) == workers


def test_threads_follow_the_workers() -> None:
    assert Choices(8, ("fp32",), (1, 2, 3, 8)).plans() == [(1, 8), (2, 4), (3, 2), (8, 1)]


def test_workers_times_threads_never_pass_the_cores() -> None:
    assert Choices(4, ("fp32",), (1, 2, 8), threads=(1, 2, 4)).plans() == [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2)]
    with pytest.raises(TuneError, match=r"would pass the 2 cores of this machine.*--workers or --threads"):
        Choices(2, ("fp32",), (4,)).plans()


def test_the_recipe_as_it_is_comes_first_then_one_thing_at_a_time_is_varied(recipe: Recipe) -> None:
    choices = Choices(2, ("fp32", "other"), (1, 2), batch_sizes=(1, 8), delays_ms=(1, 5))
    assert [str(one) for one in choices.first(recipe)] == [
        "fp32, 1 x 2 threads, batches of 8, 5 ms",
        "fp32, 1 x 2 threads, batches of 8, 1 ms",
        "fp32, 2 x 1 threads, batches of 8, 1 ms",
        "other, 1 x 2 threads, batches of 8, 1 ms",
        "other, 2 x 1 threads, batches of 8, 1 ms",
    ]
    one = choices.first(recipe)[1]
    assert choices.batches(one) == [replace(one, batch_size=1), one]
    assert choices.delays(one) == [one, replace(one, max_batch_delay_ms=5)]


def test_a_recipe_that_does_not_fit_is_not_measured_as_it_is(recipe: Recipe) -> None:
    assert len(Choices(1, ("fp32",), (1,), delays_ms=(1,)).first(recipe)) == 2
    assert len(Choices(1, ("other",), (1,), delays_ms=(1,)).first(recipe)) == 1
    large = recipe.model_copy(update={"serving": recipe.serving.model_copy(update={"workers": 2})})
    assert [one.workers for one in Choices(1, ("fp32",), (1,)).first(large)] == [1]


def test_a_request_that_never_waits_has_no_delays() -> None:
    assert Choices(2, ("fp32",), (1,)).delays(Setting("fp32", 1, 2, 1, 5)) == []


def test_no_round_measures_more_than_is_said(recipe: Recipe) -> None:
    assert Choices(2, ("fp32",), (1, 2), batch_sizes=(1, 8, 16), delays_ms=(1, 5)).most(recipe) == (3, 4, 2)
    assert Choices(2, ("fp32",), (1,), batch_sizes=(1, 16), delays_ms=(5,)).most(recipe) == (1, 2, 0)


@pytest.mark.parametrize(("machine", "left_out"), [("aarch64", ()), ("x86_64", ("bf16",))])
def test_the_recipes_own_precision_and_all_that_the_cpu_tells_apart_are_tried(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch, machine: str, left_out: tuple[str, ...]
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert precisions_of(recipe) == tuple(one for one in KNOWN if one not in left_out)
    assert precisions_of(recipe, ("bf16",)) == ("bf16",)
    assert precisions_of(recipe, ("fp32", "fp32")) == ("fp32",)
    assert precisions_of(recipe.model_copy(update={"precision": "bf16"})) == KNOWN
    with pytest.raises(TuneError, match=r"no precision fp7: choose from .*fp32"):
        precisions_of(recipe, ("fp32", "fp7"))


def test_a_recipe_without_a_network_has_no_precision(custom: Recipe) -> None:
    assert precisions_of(custom) == ("none",)
    with pytest.raises(TuneError, match="The custom task has no network, and so no precision: leave --precisions out"):
        precisions_of(custom, ("fp32",))
