"""A container that is told to stop answers what it has accepted, and ends well."""

import pytest

from tests.arm64.drive import SLOW_REQUESTS, Run

pytestmark = [pytest.mark.arm64, pytest.mark.timeout(2400)]


def test_answers_that_were_under_way_arrive(runs: dict[str, Run]) -> None:
    for run in runs.values():
        assert run.unanswered, "nothing was under way when it was told to stop"
        assert run.last == [200] * SLOW_REQUESTS


def test_it_ends_with_0(runs: dict[str, Run]) -> None:
    assert {cpu: run.exit_code for cpu, run in runs.items()} == dict.fromkeys(runs, 0)
