"""What is silenced for one thread is heard again when the last one is done."""

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from handlers.parallel import side_by_side
from handlers.quiet import Shared, no_standard_error, no_warnings

OPEN = Path("/proc/self/fd")


def test_the_first_enters_and_the_last_leaves() -> None:
    heard = []

    @contextmanager
    def context() -> Iterator[None]:
        heard.append("in")
        yield
        heard.append("out")

    shared = Shared(context)
    for _ in range(2):
        with shared:
            with shared:
                assert heard[-1] == "in"
            assert heard[-1] == "in"
    assert heard == ["in", "out"] * 2


def test_one_that_cannot_be_entered_is_not_left() -> None:
    @contextmanager
    def context() -> Iterator[None]:
        if not works:
            raise OSError("too many open files")
        yield

    works, shared = False, Shared(context)
    with pytest.raises(OSError, match="too many"), shared:
        pass
    works = True
    with shared:
        pass


def test_warnings_of_several_threads_are_not_heard_and_those_after_them_are() -> None:
    together = threading.Barrier(3)
    before = list(warnings.filters)

    def warn(_: int) -> None:
        with no_warnings:
            together.wait(30)
            warnings.warn("hidden", stacklevel=1)
        together.wait(30)

    side_by_side(warn, range(3), 3)
    assert warnings.filters == before
    with pytest.warns(UserWarning, match="shown"):
        warnings.warn("shown", stacklevel=1)


def test_standard_error_comes_back_after_several_threads(capfd: pytest.CaptureFixture[str]) -> None:
    together = threading.Barrier(3)

    def write(_: int) -> None:
        together.wait(30)
        with no_standard_error:
            together.wait(30)
            os.write(2, b"hidden\n")

    descriptors = len(list(OPEN.iterdir()))
    for _ in range(3):
        side_by_side(write, range(3), 3)
    os.write(2, b"shown\n")
    assert capfd.readouterr().err == "shown\n"
    assert len(list(OPEN.iterdir())) == descriptors
