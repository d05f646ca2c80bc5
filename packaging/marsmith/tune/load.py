"""A closed loop: N clients, each of which asks, waits for the answer and asks again.

The clients share the cores with the server, so they use http.client, which costs a third of what requests does.
"""

from __future__ import annotations

import http.client
import math
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from marsmith.configuration import HOST

# A request that takes longer is given up, so that the loop always ends.
TIMEOUT_S = 60.0
# A client whose connection broke tries again after this.
RETRY_S = 0.1
# Parts of the window, whose differences say how much a figure is worth.
SLICES = 5

# A body and its Content-Type.
Body = tuple[bytes, str]


@dataclass(frozen=True, slots=True)
class Load:
    """What N clients found.

    `per_second` are right answers a second, give or take `noise` (two standard errors over SLICES parts of the time);
    `failed` counts everything that was no answer with status 200, warm-up included.
    """

    per_second: float
    noise: float
    latencies_ms: tuple[float, ...]
    failed: int

    def percentile(self, share: float) -> float:
        """The latency in ms that this share of the requests did not pass; 0 when there was none."""
        return self.latencies_ms[math.ceil(share * len(self.latencies_ms)) - 1] if self.latencies_ms else 0.0


def closed_loop(port: int, path: str, bodies: Sequence[Body], clients: int, seconds: float, warm_up_s: float) -> Load:
    """Let `clients` ask for warm_up_s + seconds; what was answered in `seconds` after the warm-up is measured."""
    loop = _Loop(port, path, bodies, warm_up_s + seconds)
    threads = [threading.Thread(target=loop.client, args=(turn, clients), daemon=True) for turn in range(clients)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        loop.stop()
    return _figures(loop, seconds, warm_up_s)


class _Loop:
    def __init__(self, port: int, path: str, bodies: Sequence[Body], seconds: float) -> None:
        self._port, self._path, self._bodies = port, path, bodies
        self._begin = time.perf_counter()
        self._end = seconds
        self.failed = 0
        # When each good answer came, and what it took, in seconds.
        self.answers: list[tuple[float, float]] = []

    def stop(self) -> None:
        """Nobody asks again."""
        self._end = 0.0

    def client(self, turn: int, step: int) -> None:
        """Ask until the end; clients begin at different bodies."""
        connection = http.client.HTTPConnection(HOST, self._port, timeout=TIMEOUT_S)
        while (asked := self._now()) < self._end:
            if self._ask(connection, *self._bodies[turn % len(self._bodies)]):
                now = self._now()
                self.answers.append((now, now - asked))
            else:
                self.failed += 1
            turn += step
        connection.close()

    def _ask(self, connection: http.client.HTTPConnection, body: bytes, content_type: str) -> bool:
        try:
            connection.request("POST", self._path, body, {"Content-Type": content_type})
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            connection.close()  # the next request opens it again
            time.sleep(RETRY_S)
            return False
        return response.status == HTTPStatus.OK

    def _now(self) -> float:
        return time.perf_counter() - self._begin


def _figures(loop: _Loop, seconds: float, warm_up_s: float) -> Load:
    window = [(done - warm_up_s, took) for done, took in loop.answers if warm_up_s <= done < warm_up_s + seconds]
    slices = [0] * SLICES
    for done, _ in window:
        slices[int(done / seconds * SLICES)] += 1
    deviation = statistics.stdev(slices) * SLICES / seconds
    return Load(
        per_second=len(window) / seconds,
        noise=2 * deviation / math.sqrt(SLICES),
        latencies_ms=tuple(sorted(took * 1000 for _, took in window)),
        failed=loop.failed,
    )
