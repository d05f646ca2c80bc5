"""How many requests are on their way at once, and when what a busy server did not take is asked again.

A TorchServe answers 503 when its queue is full. So fewer are sent at once after such an answer, down to one, and more
again while all goes well (additive increase, multiplicative decrease).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Generic, TypeVar

# The pause before the second try; each further one takes twice as long, up to the longest.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
# Pauses differ by this share, so that requests which were refused together do not come back together.
SPREAD = 0.5
# How often one request is sent: after 10 it has waited some 20 s.
TRIES = 10
# A connection that breaks each time is the fault of its request: TorchServe breaks it on a body that is too large.
TRIES_OF_BROKEN = 3
# Without any good answer for so long, the server is taken to be out of service, and nothing is asked again.
PATIENCE_S = 60.0
# What a server may ask for with Retry-After.
MAX_RETRY_AFTER_S = 30.0
MAX_DIGITS = 9

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Try(Generic[T]):
    """What came of sending a request once, and how often it may be sent in all: once where that was an answer."""

    outcome: T
    tries: int = 1
    retry_after_s: float = 0.0


class StoppedError(Exception):
    """`stop` was called."""


class Pace:
    """What the requests of one client share. Safe to use from several threads."""

    def __init__(self, at_once: int) -> None:
        self._most = self._room = float(at_once)
        self._on_their_way = 0
        self._changed = threading.Condition()
        self._stopped = False
        self._slowed_at = self._good_at = time.monotonic()
        self._begun = False

    def ask(self, send: Callable[[], Try[T]]) -> T:
        """The outcome of a request, sent again while the server is busy. Raises StoppedError."""
        count = 0
        while True:
            with self._turn() as began:
                tried = send()
            count += 1
            busy = tried.tries > 1
            self._learn(began, busy=busy)
            if not busy or count >= tried.tries or not self._is_patient():
                return tried.outcome
            pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (count - 1)) * random.uniform(1 - SPREAD, 1)  # noqa: S311
            self._wait(max(pause, tried.retry_after_s))

    def stop(self) -> None:
        """Let every request that waits end with StoppedError."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    @contextmanager
    def _turn(self) -> Iterator[float]:
        """Wait until there is room; yields when that was."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._on_their_way < max(1, int(self._room)))
            if self._stopped:
                raise StoppedError
            self._on_their_way += 1
            began = time.monotonic()
            if not self._begun:
                self._begun, self._good_at = True, began
        try:
            yield began
        finally:
            with self._changed:
                self._on_their_way -= 1
                self._changed.notify_all()

    def _learn(self, began: float, *, busy: bool) -> None:
        with self._changed:
            if not busy:
                self._room = min(self._most, self._room + 1 / self._room)
                self._good_at = time.monotonic()
            elif began > self._slowed_at:  # those of one moment slow down once
                self._room = max(1.0, self._room / 2)
                self._slowed_at = time.monotonic()
            self._changed.notify_all()

    def _is_patient(self) -> bool:
        with self._changed:
            return time.monotonic() - self._good_at < PATIENCE_S

    def _wait(self, pause_s: float) -> None:
        with self._changed:
            if self._changed.wait_for(lambda: self._stopped, pause_s):
                raise StoppedError


def retry_after_s(value: str) -> float:
    """The seconds of a header Retry-After, a number or a date, as far as they are waited for; 0 for anything else."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:MAX_DIGITS]), MAX_RETRY_AFTER_S)
    try:
        seconds = parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)
