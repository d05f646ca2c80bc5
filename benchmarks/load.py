"""The load generator: a process of its own, so that what it costs is not the server's.

    python -m benchmarks.load PLAN.json ANSWERS.json

A closed loop keeps N clients busy and counts answers. It goes on until enough came, however short the window is. An
open loop sends at random moments (a Poisson process) whatever the server does, and measures each latency from the
moment at which its request was due: a server that stalls makes all who arrive meanwhile wait, and that is counted (no
coordinated omission).
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

HOST = "127.0.0.1"
OK = 200
# Of a request that got no HTTP answer.
BROKEN = 0
# A request that takes longer is given up, so the generator always ends.
TIMEOUT_S = 120.0
# Threads that send an open loop's requests; when all are busy, the next waits, and its latency counts that too.
OPEN_LOOP_CLIENTS = 128
SEED = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send where: the files of `bodies` in turn, as `content_type` to `path`.

    `clients` of a closed loop, or `rate` in requests/s of an open one; `seconds` are measured after `warm_up_s`. A
    closed loop warms up until there are answers for all clients, and measures until `least` more came.
    """

    port: int
    path: str
    content_type: str
    bodies: list[str]
    mode: Literal["closed", "open"]
    seconds: float
    warm_up_s: float = 0.0
    clients: int = 1
    rate: float = 0.0
    least: int = 0


@dataclass(slots=True)
class Sent:
    """One request: which input, when it was due and when it was answered (seconds from the start), and the answer."""

    index: int
    due: float
    done: float
    status: int
    answer: str


@dataclass(slots=True)
class Outcome:
    """What was measured in a window of `seconds`, and every answer of the whole run.

    `answered` counts one that was under way at an end of the window by the share of its time inside: batches are
    answered at once, and a window would otherwise hold one more or one less.
    """

    seconds: float
    answered: float
    failed: int
    latencies_ms: list[float]
    answers: list[tuple[int, str]] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        """Right answers in a second."""
        return self.answered / self.seconds


def run(plan: Plan) -> Outcome:
    """Carry out a plan, and return when the last request was answered or given up."""
    bodies = [Path(body).read_bytes() for body in plan.bodies]
    sender = _Sender(plan, bodies)
    count = plan.clients if plan.mode == "closed" else OPEN_LOOP_CLIENTS
    loop = sender.closed_loop if plan.mode == "closed" else sender.open_loop
    threads = [threading.Thread(target=loop, args=(client,), daemon=True) for client in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome(sender.sent, *(window(sorted(one.done for one in sender.sent), plan) or _stated(plan)))


def window(done: Sequence[float], plan: Plan) -> tuple[float, float] | None:
    """Begin and end of what is measured, from the moments of all answers in order; None while there are too few."""
    if plan.mode == "open":
        return _stated(plan)
    if len(done) < plan.clients:
        return None
    begin = max(plan.warm_up_s, done[plan.clients - 1])
    after = done[bisect_right(done, begin) :]
    if len(after) < plan.least:
        return None
    return begin, max(begin + plan.seconds, after[plan.least - 1] if plan.least else begin)


def _stated(plan: Plan) -> tuple[float, float]:
    return plan.warm_up_s, plan.warm_up_s + plan.seconds


def outcome(sent: Sequence[Sent], begin: float, end: float) -> Outcome:
    """The figures of what was sent, in the window from `begin` to `end`.

    Latencies are those of the requests due inside it, so that the slowest, which may be answered after it, are not left
    out.
    """
    answered = sum(_inside(one, begin, end) for one in sent if one.status == OK)
    due = [one for one in sent if begin <= one.due < end]
    statuses: dict[str, int] = {}
    for one in sent:
        statuses[str(one.status)] = statuses.get(str(one.status), 0) + 1
    return Outcome(
        seconds=end - begin,
        answered=answered,
        failed=sum(one.status != OK for one in sent),
        latencies_ms=sorted((one.done - one.due) * 1000 for one in due if one.status == OK),
        answers=[(one.index, one.answer) for one in sent if one.status == OK],
        statuses=statuses,
    )


def _inside(one: Sent, begin: float, end: float) -> float:
    """The share of a request's time that lies in the window."""
    if one.done <= one.due:
        return float(begin <= one.done < end)
    return max(0.0, min(one.done, end) - max(one.due, begin)) / (one.done - one.due)


def arrivals(rate: float, seconds: float) -> list[float]:
    """The moments of a Poisson process of `rate` a second, the same in every run."""
    rng = random.Random(SEED)  # noqa: S311 - no secret
    moments, now = [], rng.expovariate(rate)
    while now < seconds:
        moments.append(now)
        now += rng.expovariate(rate)
    return moments


class _Sender:
    def __init__(self, plan: Plan, bodies: list[bytes]) -> None:
        self._plan = plan
        self._bodies = bodies
        self._end = plan.warm_up_s + plan.seconds
        self._due = arrivals(plan.rate, self._end) if plan.mode == "open" else []
        self._lock = threading.Lock()
        self._next = 0
        self._start = time.perf_counter()
        self.sent: list[Sent] = []

    def closed_loop(self, client: int) -> None:
        """Ask, wait for the answer, ask again. Clients begin at different inputs."""
        connection = self._connection()
        turn = client
        while not self._over(due := self._now()):
            self._send(connection, turn % len(self._bodies), due)
            turn += self._plan.clients
        connection.close()

    def _over(self, now: float) -> bool:
        """Whether the window has ended. Only late is it worth looking at every answer."""
        if now < self._end:
            return False
        found = window(sorted(one.done for one in list(self.sent)), self._plan)
        return found is not None and now >= found[1]

    def open_loop(self, _client: int) -> None:
        """Take the next arrival, wait until it is due, and send it."""
        connection = self._connection()
        while (turn := self._take()) < len(self._due):
            time.sleep(max(0.0, self._due[turn] - self._now()))
            self._send(connection, turn % len(self._bodies), self._due[turn])
        connection.close()

    def _take(self) -> int:
        with self._lock:
            turn, self._next = self._next, self._next + 1
        return turn

    def _send(self, connection: http.client.HTTPConnection, index: int, due: float) -> None:
        headers = {"Content-Type": self._plan.content_type} if self._plan.content_type else {}
        try:
            connection.request("POST", self._plan.path, self._bodies[index], headers)
            response = connection.getresponse()
            answer, status = response.read().decode("utf-8", "replace"), response.status
        except (OSError, http.client.HTTPException):
            connection.close()  # the next request opens it again
            answer, status = "", BROKEN
        self.sent.append(Sent(index, due, self._now(), status, answer))

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(HOST, self._plan.port, timeout=TIMEOUT_S)

    def _now(self) -> float:
        return time.perf_counter() - self._start


def main(arguments: Sequence[str] | None = None) -> None:
    """Read a plan, carry it out, write the outcome."""
    plan_file, outcome_file = (Path(name) for name in arguments or sys.argv[1:])
    plan: dict[str, Any] = json.loads(plan_file.read_text(encoding="utf-8"))
    outcome_file.write_text(json.dumps(asdict(run(Plan(**plan)))), encoding="utf-8")


if __name__ == "__main__":
    main()
