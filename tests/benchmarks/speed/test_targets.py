"""What a run says about the targets."""

import copy
from typing import Any

import pytest

from benchmarks.speed.targets import FAST_INT8, TARGETS, reached, stored
from tests.benchmarks.made_up import RESULTS


def by_name(results: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in stored(results)}


def test_each_ratio_is_of_the_better_of_ours() -> None:
    rows = by_name(RESULTS)
    assert {name: (row["subject"], row["measured"], row["met"]) for name, row in rows.items()} == {
        "tweets/s, 32 clients, by B1": ("marsmith:int8", 5.0, True),
        "tweets/s, 32 clients, by B5": ("marsmith:int8", pytest.approx(50 / 12), True),
        "tweet, p50 of one client, by B1": ("marsmith:int8", pytest.approx(1 / 6), True),
        "worker ready, by B1": ("marsmith", 0.4, True),
        "memory (PSS) of a further worker, by B1": ("marsmith", 0.125, True),
        "fp32 arithmetic of tweets, by matrix products": ("marsmith", 1.5, True),
    }
    assert rows["worker ready, by B1"]["margin"] == pytest.approx(0.125)


@pytest.mark.parametrize("feature", sorted(FAST_INT8))
def test_processors_that_are_fast_at_int8_have_higher_targets(feature: str) -> None:
    fast = copy.deepcopy(RESULTS)
    fast["machine"]["features"].append(feature)
    name = "tweets/s, 32 clients, by B1"
    assert (by_name(RESULTS)[name]["bound"], by_name(fast)[name]["bound"]) == (2.7, 3)


def test_a_target_that_is_missed_says_by_how_much() -> None:
    results = copy.deepcopy(RESULTS)
    for name in ("marsmith", "marsmith:int8"):
        results["tasks"]["sentiment"]["subjects"][name]["worker_s"]["median"] = 9
    row = by_name(results)["worker ready, by B1"]
    assert (row["met"], row["margin"]) == (False, -0.5)


def test_a_run_without_ours_reaches_nothing() -> None:
    results = copy.deepcopy(RESULTS)
    for name in ("marsmith", "marsmith:int8"):
        del results["tasks"]["sentiment"]["sets"]["tweets"]["subjects"][name]
    assert list(reached(results)) == []


def test_each_target_has_a_name_of_its_own() -> None:
    assert len({target.name for target in TARGETS}) == len(TARGETS)
