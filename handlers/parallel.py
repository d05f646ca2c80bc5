"""A hook on several items at once, on no more threads than the thread plan gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

ArgumentT = TypeVar("ArgumentT")
ValueT = TypeVar("ValueT")


def side_by_side(hook: Callable[[ArgumentT], ValueT], arguments: Sequence[ArgumentT], threads: int) -> list[ValueT]:
    """The hook's values in order, worked out on at most so many threads, of which the caller's is one.

    The caller's does what the others would, where the machine gives no more. Raises what the hook raises, when none is
    at work any more.
    """
    values: list[Any] = [None] * len(arguments)
    places = iter(range(len(arguments)))
    raised: list[BaseException] = []

    def work() -> None:
        try:
            for place in places:
                values[place] = hook(arguments[place])
        except BaseException as error:
            raised.append(error)
            list(places)  # so that nothing more is begun

    started = []
    with suppress(RuntimeError):  # can't start new thread
        for _ in range(min(threads, len(arguments)) - 1):
            thread = Thread(target=work)
            thread.start()
            started.append(thread)
    work()
    for thread in started:
        thread.join()
    if raised:
        raise raised[0]
    return values
