"""Both halves count cores and share them alike, though neither may import the other."""

from pathlib import Path

from handlers import cores as in_a_worker
from marsmith.ground import cores as around_it


def test_the_thread_plan_of_a_run_is_the_workers_own() -> None:
    assert Path(around_it.__file__).read_bytes() == Path(in_a_worker.__file__).read_bytes()
