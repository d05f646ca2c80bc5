"""A container that is told to stop answers what it has accepted, and ends well."""

import pytest

from tests.arm64.drive import LAST_REQUESTS, Run

pytestmark = [pytest.mark.arm64, pytest.mark.timeout(2400)]


def test_answers_that_were_under_way_arrive(runs: list[Run]) -> None:
    for run in runs:
        assert run.unanswered, "nothing was under way when it was told to stop"
        assert run.last == [200] * LAST_REQUESTS


def test_it_ends_with_0(runs: list[Run]) -> None:
    assert [run.exit_code for run in runs] == [0] * len(runs)


def test_it_ends_when_it_has_nothing_left_to_answer(runs: list[Run]) -> None:
    assert not any(run.gave_up for run in runs)
