"""Several items at once, on no more threads than there are to be."""

import threading
from typing import NoReturn

import pytest

from handlers.parallel import side_by_side

# Long enough for a slow machine, and never waited for where all is right.
PATIENCE_S = 30


def test_values_come_in_order() -> None:
    assert side_by_side(lambda number: number * number, range(100), 7) == [number * number for number in range(100)]
    assert side_by_side(str, [], 3) == []


@pytest.mark.parametrize(("threads", "items", "most"), [(3, 9, 3), (8, 2, 2), (1, 3, 1)])
def test_as_many_are_at_work_as_there_are_threads(threads: int, items: int, most: int) -> None:
    """Everyone waits until `most` are there; one more than that would be seen."""
    lock, together = threading.Lock(), threading.Barrier(most)
    inside, seen = 0, []

    def work(_: int) -> None:
        nonlocal inside
        with lock:
            inside += 1
            seen.append(inside)
        together.wait(PATIENCE_S)
        with lock:
            inside -= 1

    side_by_side(work, range(items), threads)
    assert max(seen) == most


@pytest.mark.parametrize(("threads", "items"), [(1, 5), (4, 1)])
def test_a_single_item_or_thread_is_the_callers_own(threads: int, items: int) -> None:
    identities = side_by_side(lambda _: threading.get_ident(), range(items), threads)
    assert set(identities) == {threading.get_ident()}


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_what_is_raised_reaches_the_caller_when_nobody_is_at_work(kind: type[BaseException], threads: int) -> None:
    begun = []

    def work(number: int) -> None:
        begun.append(number)
        if number == 2:
            raise kind("stop")

    alive = threading.active_count()
    with pytest.raises(kind, match="stop"):
        side_by_side(work, range(1000), threads)
    assert threading.active_count() == alive
    assert len(begun) < 1000


def test_where_no_thread_can_be_started_the_caller_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert side_by_side(str, [1, 2, 3], 3) == ["1", "2", "3"]
