"""The load generator in a process of its own, so that what it costs is not the server's.

    python -m benchmarks.speed.load PLAN.json ANSWERS.json

The loops are those of marsmith.load.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from marsmith.load.loops import Sent, Window, closed_loop, open_loop


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send where: the files of `bodies` in turn, as `content_type` to `path`.

    `clients` of a closed loop, or `rate` in requests/s of an open one; `seconds` are measured after `warm_up_s`. A
    closed loop warms up until there are answers for all clients, and measures until `least` more came, however short
    the window is.
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
    bodies = [(Path(body).read_bytes(), plan.content_type) for body in plan.bodies]
    stated = plan.warm_up_s, plan.warm_up_s + plan.seconds
    if plan.mode == "open":
        return outcome(open_loop(plan.port, plan.path, bodies, plan.rate, stated[1]), *stated)
    window = Window(plan.clients, plan.seconds, plan.warm_up_s, plan.least)
    sent = closed_loop(plan.port, plan.path, bodies, window)
    begin, end = window.bounds([one.done for one in sent])
    return outcome(sent, *((begin, end) if math.isfinite(end) else stated))


def outcome(sent: Sequence[Sent], begin: float, end: float) -> Outcome:
    """The figures of what was sent, in the window from `begin` to `end`.

    Latencies are those of the requests due inside it, so that the slowest, which may be answered after it, are not left
    out.
    """
    statuses: dict[str, int] = {}
    for one in sent:
        statuses[str(one.status)] = statuses.get(str(one.status), 0) + 1
    return Outcome(
        seconds=end - begin,
        answered=sum(one.inside(begin, end) for one in sent if one.ok),
        failed=sum(not one.ok for one in sent),
        latencies_ms=sorted((one.done - one.due) * 1000 for one in sent if one.ok and begin <= one.due < end),
        answers=[(one.index, one.answer.decode("utf-8", "replace")) for one in sent if one.ok],
        statuses=statuses,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Read a plan, carry it out, write the outcome."""
    plan_file, outcome_file = (Path(name) for name in arguments or sys.argv[1:])
    plan: dict[str, Any] = json.loads(plan_file.read_text(encoding="utf-8"))
    outcome_file.write_text(json.dumps(asdict(run(Plan(**plan)))), encoding="utf-8")


if __name__ == "__main__":
    main()
