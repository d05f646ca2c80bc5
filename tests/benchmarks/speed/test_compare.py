"""What is flagged between two runs."""

import copy
from typing import Any

import pytest

from benchmarks.speed.compare import compare
from tests.benchmarks.made_up import RESULTS, speeds


def changed(name: str, speed: float) -> dict[str, Any]:
    """RESULTS with the throughput of one subject multiplied."""
    results = copy.deepcopy(RESULTS)
    closed = results["tasks"]["sentiment"]["sets"]["tweets"]["subjects"][name]["closed"]["32"]
    closed["per_second"]["median"] *= speed
    return results


def lost(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [change.what for change in compare(old, new) if change.lost]


def test_nothing_is_lost_between_a_run_and_itself() -> None:
    changes = compare(RESULTS, RESULTS)
    assert {change.gain for change in changes} == {1.0}
    assert {change.what for change in changes} == {
        "sentiment, tweets: answers/s",
        "sentiment, tweets: p50 of 1 client",
        "sentiment: worker ready, s",
        "sentiment: server ready, s",
        "sentiment: build, s",
        "sentiment: memory of a further worker",
    }


@pytest.mark.parametrize(("speed", "flagged"), [(0.8, True), (0.9, False), (1.5, False)])
def test_a_loss_of_a_fifth_is_flagged_and_one_of_a_tenth_is_not(speed: float, flagged: bool) -> None:
    assert lost(RESULTS, changed("marsmith", speed)) == (["sentiment, tweets: answers/s"] if flagged else [])


def test_a_slower_machine_is_no_loss() -> None:
    slower = changed("marsmith", 0.5)
    slower["tasks"]["sentiment"]["sets"]["tweets"]["subjects"]["B1"]["closed"]["32"]["per_second"]["median"] *= 0.5
    slower["tasks"]["sentiment"]["sets"]["tweets"]["subjects"]["marsmith:int8"] = speeds(25, 20)
    assert lost(RESULTS, slower) == []
    # Both of ours, by a baseline that became faster.
    assert lost(RESULTS, changed("B1", 2.0)) == ["sentiment, tweets: answers/s"] * 2


def test_without_a_common_baseline_the_figures_themselves_are_compared() -> None:
    old, new = copy.deepcopy(RESULTS), changed("marsmith", 0.8)
    for run in (old, new):
        task = run["tasks"]["sentiment"]
        task["subjects"].pop("B1")
        for name in ("B1", "B5"):
            task["sets"]["tweets"]["subjects"].pop(name)
    (change,) = (change for change in compare(old, new) if change.lost)
    assert change.yardstick is None
    assert "absolute" in str(change)


def test_longer_is_worse_for_times_and_larger_for_memory() -> None:
    new = copy.deepcopy(RESULTS)
    facts = new["tasks"]["sentiment"]["subjects"]["marsmith"]
    facts["worker_s"]["median"] *= 1.3
    facts["memory"]["further_worker"]["pss"] *= 2
    facts["pack_s"] /= 2
    assert lost(RESULTS, new) == ["sentiment: memory of a further worker", "sentiment: worker ready, s"]
