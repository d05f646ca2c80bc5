"""A bound on what several threads hold at once, such as bytes of images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition


class Budget:
    """At most so much is taken at once, or more than that by one thread alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._given_back = Condition()

    @contextmanager
    def turn(self) -> Iterator[Callable[[int], None]]:
        """A function that takes an amount, once, and waits until there is so much; it is given back in the end."""
        own = 0

        def take(amount: int) -> None:
            nonlocal own
            with self._given_back:
                self._given_back.wait_for(lambda: not self._taken or self._taken + amount <= self._most)
                self._taken += amount
                own = amount

        try:
            yield take
        finally:
            with self._given_back:
                self._taken -= own
                self._given_back.notify_all()
