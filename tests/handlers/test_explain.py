"""The Shapley estimator, beside the definition."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from handlers.errors import Overloaded
from handlers.explain import RUNS_AT_ONCE, BoolArray, Float64Array, explain, explain_each, most_parts


class Table:
    """A network of two labels that gives every set of parts logits of its own, and notes what it was asked."""

    def __init__(self, parts: int, seed: int = 0) -> None:
        self.parts = parts
        self.values = np.random.default_rng(seed).normal(size=(2**parts, 2))
        self.asked: list[bytes] = []
        self.batches: list[int] = []

    def __call__(self, masks: BoolArray) -> Float64Array:
        self.asked += [mask.tobytes() for mask in masks]
        self.batches.append(len(masks))
        return np.stack([self.of(np.flatnonzero(mask)) for mask in masks])

    def of(self, there: object) -> Float64Array:
        row: Float64Array = self.values[np.sum(2 ** np.asarray(there, dtype=int))]
        return row

    def shapley(self) -> Float64Array:
        """Shapley's formula (1953), over all subsets."""
        n = self.parts
        values = np.zeros((n, 2))
        for part in range(n):
            others = [other for other in range(n) if other != part]
            for size in range(n):
                weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
                for some in itertools.combinations(others, size):
                    values[part] += weight * (self.of((*some, part)) - self.of(some))
        return values


@pytest.mark.parametrize("parts", [1, 2])
def test_one_or_two_parts_are_explained_exactly(parts: int) -> None:
    network = Table(parts)
    np.testing.assert_allclose(explain(network, parts, 2).shares, network.shapley())


@pytest.mark.parametrize("parts", [3, 5])
def test_many_orders_come_near_the_definition(parts: int) -> None:
    network = Table(parts)
    exact = network.shapley()
    far = np.abs(explain(network, parts, 2 * parts).shares - exact).max()
    near = np.abs(explain(network, parts, 40_000).shares - exact).max()
    assert near < 0.05 < far


@pytest.mark.parametrize("runs", [1, 10, 100])
@pytest.mark.parametrize("parts", [1, 2, 7, 12])
def test_the_shares_add_up_to_the_difference_however_few_the_runs(parts: int, runs: int) -> None:
    network = Table(parts)
    explanation = explain(network, parts, runs)
    np.testing.assert_array_equal(explanation.logits, network.of(range(parts)))
    np.testing.assert_array_equal(explanation.baseline, network.of([]))
    np.testing.assert_allclose(explanation.shares.sum(axis=0), explanation.logits - explanation.baseline)


def test_parts_that_act_alone_get_what_they_add() -> None:
    weights = np.array([[3.0], [-2.0], [0.0], [0.5]])
    explanation = explain(lambda masks: masks @ weights + 7, 4, 8)
    np.testing.assert_allclose(explanation.shares, weights, atol=1e-12)
    assert (explanation.baseline.tolist(), explanation.logits.tolist()) == ([7], [8.5])


@pytest.mark.parametrize("parts", [1, 2, 5, 12])
@pytest.mark.parametrize("runs", [24, 100])
def test_no_more_runs_than_allowed_and_none_twice(parts: int, runs: int) -> None:
    network = Table(parts)
    explanation = explain(network, parts, runs)
    assert len(network.asked) == len(set(network.asked)) == explanation.runs <= runs
    assert max(network.batches) <= RUNS_AT_ONCE


@pytest.mark.parametrize("runs", [1, 2, 3, 256])
def test_as_many_parts_as_asked_for_fit_the_runs(runs: int) -> None:
    parts = most_parts(runs)
    assert explain(lambda masks: masks.sum(axis=1, keepdims=True), parts, runs).runs <= max(2, runs)


def test_the_same_input_is_explained_the_same_way() -> None:
    np.testing.assert_array_equal(explain(Table(9), 9, 50).shares, explain(Table(9), 9, 50).shares)


def after(looks: int) -> Callable[[], None]:
    """A clock that has run out after so many looks."""
    left = iter(range(looks))

    def check() -> None:
        if next(left, None) is None:
            raise Overloaded

    return check


def test_what_is_known_when_time_runs_out_is_the_answer() -> None:
    network = Table(6)
    whole, part = explain(network, 6, 100), explain(network, 6, 100, after(4))
    assert 2 < part.runs < whole.runs
    np.testing.assert_allclose(part.shares.sum(axis=0), whole.logits - whole.baseline)


def test_time_is_looked_at_where_no_run_is_left_to_do() -> None:
    network = Table(3)
    explanation = explain(network, 3, 10**9, after(1000))
    assert explanation.runs == 2**3
    np.testing.assert_allclose(explanation.shares, network.shapley(), atol=0.1)


def test_one_or_two_parts_take_no_more_than_they_have() -> None:
    assert explain(Table(1), 1, 10**9).runs == 2
    assert explain(Table(2), 2, 10**9).runs == 4


def test_inputs_take_turns_so_that_each_has_an_answer_when_time_runs_out() -> None:
    networks = [Table(6, seed) for seed in range(3)]
    inputs = [(network, network.parts) for network in networks]
    whole = explain_each(inputs, 300, lambda: None)
    part = explain_each(inputs, 300, after(14))
    for network, one, other in zip(networks, part, whole, strict=True):
        assert 2 < one.runs < other.runs
        np.testing.assert_allclose(one.shares.sum(axis=0), network.of(range(6)) - network.of([]))
    with pytest.raises(Overloaded):
        explain_each(inputs, 300, after(5))


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_without_one_order_there_is_no_answer(looks: int) -> None:
    with pytest.raises(Overloaded):
        explain(Table(6), 6, 100, after(looks))
