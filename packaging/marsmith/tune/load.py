"""A closed loop: N clients, each of which asks, waits for the answer and asks again.

The clients share the cores with the server, so they use http.client, which costs a third of what requests does.
"""

from __future__ import annotations

import http.client
import math
import statistics
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from marsmith.torchserve.configuration import HOST

# A request that takes longer is given up, so that the loop always ends.
TIMEOUT_S = 60.0
# A client whose request failed asks again after this: a server that refuses at once would else be asked without pause.
RETRY_S = 0.1
# Parts of the window, whose differences say how much a figure is worth.
SLICES = 5
# How often its stated length a window may grow to, for answers that are slow to come.
GROWTH = 4
# The status of a request that got no whole answer.
NO_ANSWER = 0

# A body and its Content-Type.
Body = tuple[bytes, str]


@dataclass(frozen=True, slots=True)
class Load:
    """What N clients found.

    `per_second` are right answers a second, give or take `noise` (two standard errors over SLICES parts of the time);
    `statuses` counts everything that was no answer with status 200, warm-up included, by its status.
    """

    per_second: float
    noise: float
    latencies_ms: tuple[float, ...]
    statuses: Mapping[int, int]

    @property
    def failed(self) -> int:
        """How many requests were not answered with status 200."""
        return sum(self.statuses.values())

    def percentile(self, share: float) -> float:
        """The latency in ms that this share of the requests did not pass; 0 when there was none."""
        return self.latencies_ms[math.ceil(share * len(self.latencies_ms)) - 1] if self.latencies_ms else 0.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: when it was asked and answered, in seconds, and the answer's status."""

    begin: float
    end: float
    status: int

    def inside(self, begin: float, end: float) -> float:
        """The share of its time that lies in a window: of a batch, which is answered at once, none is one too many."""
        if self.end <= self.begin:
            return float(begin <= self.end < end)
        return max(0.0, min(self.end, end) - max(self.begin, begin)) / (self.end - self.begin)


def closed_loop(
    port: int, path: str, bodies: Sequence[Body], clients: int, seconds: float, warm_up_s: float, least: int = 0
) -> Load:
    """Let `clients` ask for warm_up_s + seconds, and measure what follows the warm-up.

    That begins when as many answers came as there are clients, and grows until `least` came after it, or to GROWTH
    times its length.
    """
    loop = _Loop(port, path, bodies, _Window(clients, seconds, warm_up_s, least))
    threads = [threading.Thread(target=loop.client, args=(turn, clients), daemon=True) for turn in range(clients)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        loop.stop()
    return figures(loop.asked, *loop.window.bounds([one.end for one in loop.asked]))


@dataclass(frozen=True, slots=True)
class _Window:
    clients: int
    seconds: float
    warm_up_s: float
    least: int

    def bounds(self, answered: Sequence[float]) -> tuple[float, float]:
        """Begin and end of what is measured, from the moments of all answers so far, in any order."""
        moments = sorted(answered)
        latest = self.warm_up_s + GROWTH * self.seconds
        # Before, clients wait less than they will: the queue is not full yet.
        filled = moments[self.clients - 1] if len(moments) >= self.clients else latest - self.seconds
        begin = max(self.warm_up_s, min(filled, latest - self.seconds))
        after = moments[bisect_right(moments, begin) :]
        enough = after[self.least - 1] if 0 < self.least <= len(after) else latest if self.least else begin
        return begin, max(begin + self.seconds, min(enough, latest))


class _Loop:
    def __init__(self, port: int, path: str, bodies: Sequence[Body], window: _Window) -> None:
        self._port, self._path, self._bodies = port, path, bodies
        self._begin = time.perf_counter()
        self._stopped = False
        self.window = window
        self.asked: list[Asked] = []

    def stop(self) -> None:
        """Nobody asks again."""
        self._stopped = True

    def client(self, turn: int, step: int) -> None:
        """Ask until the end; clients begin at different bodies."""
        connection = http.client.HTTPConnection(HOST, self._port, timeout=TIMEOUT_S)
        while not self._over(begin := self._now()):
            status = self._ask(connection, *self._bodies[turn % len(self._bodies)])
            self.asked.append(Asked(begin, self._now(), status))
            if status != HTTPStatus.OK:
                time.sleep(RETRY_S)
            turn += step
        connection.close()

    def _over(self, now: float) -> bool:
        """Whether the window has ended. Only late is it worth looking at every answer."""
        if self._stopped or now < self.window.warm_up_s + self.window.seconds:
            return self._stopped
        return now >= self.window.bounds([one.end for one in list(self.asked)])[1]

    def _ask(self, connection: http.client.HTTPConnection, body: bytes, content_type: str) -> int:
        try:
            connection.request("POST", self._path, body, {"Content-Type": content_type})
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            connection.close()  # the next request opens it again
            return NO_ANSWER
        return response.status

    def _now(self) -> float:
        return time.perf_counter() - self._begin


def figures(asked: Sequence[Asked], begin: float, end: float) -> Load:
    """The figures of a window. Latencies are of what was asked in it: the slowest may be answered after it."""
    good = [one for one in asked if one.status == HTTPStatus.OK]
    length = (end - begin) / SLICES
    slices = [sum(one.inside(begin + n * length, begin + (n + 1) * length) for one in good) for n in range(SLICES)]
    return Load(
        per_second=sum(slices) / (end - begin),
        noise=2 * statistics.stdev(slices) / length / math.sqrt(SLICES),
        latencies_ms=tuple(sorted((one.end - one.begin) * 1000 for one in good if begin <= one.begin < end)),
        statuses=Counter(one.status for one in asked if one.status != HTTPStatus.OK),
    )
