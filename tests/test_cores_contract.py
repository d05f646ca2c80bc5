"""Both halves count cores and share them alike, though neither may import the other."""

import inspect

import pytest

from handlers import engine
from marsmith import cores


@pytest.mark.parametrize("name", ["available_cores", "_quota", "intra_op_threads"])
def test_the_thread_plan_of_a_run_is_the_workers_own(name: str) -> None:
    assert inspect.getsource(getattr(cores, name)) == inspect.getsource(getattr(engine, name))
