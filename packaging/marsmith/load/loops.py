"""A closed loop, whose clients each ask, wait for the answer and ask again, and an open one, which never waits.

The clients share the cores with the server, so they use http.client, which costs a third of what requests does. An open
loop sends at random moments (a Poisson process) whatever the server does, and each latency counts from the moment at
which its request was due: a server that stalls makes all who arrive meanwhile wait, and that is counted (no coordinated
omission).
"""

from __future__ import annotations

import http.client
import math
import random
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from marsmith.torchserve.configuration import HOST

# A request that takes longer is given up, so that a loop always ends.
TIMEOUT_S = 120.0
# A client whose request failed asks again after this: a server that refuses at once would else be asked without pause.
RETRY_S = 0.1
# The status of a request that got no whole answer.
NO_ANSWER = 0
# Threads that send an open loop's requests; when all are busy, the next waits, and its latency counts that too.
OPEN_LOOP_CLIENTS = 128
SEED = 3

# A body and its Content-Type, which may be empty.
Body = tuple[bytes, str]


@dataclass(frozen=True, slots=True)
class Sent:
    """One request: which body, when it was due and when it was answered, in seconds from the start, and the answer."""

    index: int
    due: float
    done: float
    status: int
    answer: bytes = b""

    @property
    def ok(self) -> bool:
        """Whether the model answered."""
        return self.status == HTTPStatus.OK

    def inside(self, begin: float, end: float) -> float:
        """The share of its time that lies in a window: of a batch, which is answered at once, none is one too many."""
        if self.done <= self.due:
            return float(begin <= self.done < end)
        return max(0.0, min(self.done, end) - max(self.due, begin)) / (self.done - self.due)


@dataclass(frozen=True, slots=True)
class Window:
    """What of a closed loop is measured: `seconds` after `warm_up_s`.

    It begins when as many answers came as there are clients, since before they wait less than they will, and goes on
    until `least` came after that, or to `growth` times its length.
    """

    clients: int
    seconds: float
    warm_up_s: float = 0.0
    least: int = 0
    growth: float = math.inf

    def bounds(self, answered: Sequence[float]) -> tuple[float, float]:
        """Begin and end, from the moments of all answers so far, in any order; infinite while there are too few."""
        moments = sorted(answered)
        latest = self.warm_up_s + self.growth * self.seconds
        filled = moments[self.clients - 1] if len(moments) >= self.clients else latest - self.seconds
        begin = max(self.warm_up_s, min(filled, latest - self.seconds))
        after = moments[bisect_right(moments, begin) :]
        enough = after[self.least - 1] if 0 < self.least <= len(after) else latest if self.least else begin
        return begin, max(begin + self.seconds, min(enough, latest))


def closed_loop(port: int, path: str, bodies: Sequence[Body], window: Window) -> list[Sent]:
    """Let the window's clients ask until it has ended. Returns all that was sent, when the last one was answered."""
    loop = _Loop(port, path, bodies)

    def over(now: float) -> bool:
        """Whether the window has ended. Only late is it worth looking at every answer."""
        if now < window.warm_up_s + window.seconds:
            return False
        return now >= window.bounds([one.done for one in list(loop.sent)])[1]

    def client(turn: int) -> None:
        connection = loop.connection()
        while not loop.stopped and not over(due := loop.now()):
            if not loop.send(connection, turn % len(bodies), due):
                time.sleep(RETRY_S)
            turn += window.clients  # clients begin at different bodies
        connection.close()

    return loop.run(client, window.clients)


def open_loop(port: int, path: str, bodies: Sequence[Body], rate: float, seconds: float) -> list[Sent]:
    """Send `rate` requests a second for some seconds. Returns all that was sent, when the last one was answered."""
    loop = _Loop(port, path, bodies)
    due = arrivals(rate, seconds)
    turns = iter(range(len(due)))
    lock = threading.Lock()

    def client(_: int) -> None:
        connection = loop.connection()
        while not loop.stopped:
            with lock:
                turn = next(turns, None)
            if turn is None:
                break
            time.sleep(max(0.0, due[turn] - loop.now()))
            loop.send(connection, turn % len(bodies), due[turn])
        connection.close()

    return loop.run(client, OPEN_LOOP_CLIENTS)


def arrivals(rate: float, seconds: float) -> list[float]:
    """The moments of a Poisson process of `rate` a second, the same in every run."""
    rng = random.Random(SEED)  # noqa: S311 - no secret
    moments, now = [], rng.expovariate(rate)
    while now < seconds:
        moments.append(now)
        now += rng.expovariate(rate)
    return moments


class _Loop:
    """What the clients of a loop share."""

    def __init__(self, port: int, path: str, bodies: Sequence[Body]) -> None:
        self._port, self._path, self._bodies = port, path, bodies
        self._begin = time.perf_counter()
        self.stopped = False
        self.sent: list[Sent] = []

    def run(self, client: Callable[[int], None], count: int) -> list[Sent]:
        """Run `count` clients to their end; interrupted, none of them asks again."""
        threads = [threading.Thread(target=client, args=(turn,), daemon=True) for turn in range(count)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            self.stopped = True
        return self.sent

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(HOST, self._port, timeout=TIMEOUT_S)

    def send(self, connection: http.client.HTTPConnection, index: int, due: float) -> bool:
        """Send one of the bodies and wait for the answer; whether the model answered."""
        body, content_type = self._bodies[index]
        answer, status = b"", NO_ANSWER
        try:
            connection.request("POST", self._path, body, {"Content-Type": content_type} if content_type else {})
            response = connection.getresponse()
            answer, status = response.read(), response.status
        except (OSError, http.client.HTTPException):
            connection.close()  # the next request opens it again
        sent = Sent(index, due, self.now(), status, answer)
        self.sent.append(sent)
        return sent.ok

    def now(self) -> float:
        """Seconds from the start."""
        return time.perf_counter() - self._begin
