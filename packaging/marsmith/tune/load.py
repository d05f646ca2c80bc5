"""What N clients get out of a server, and how far that can be trusted."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marsmith.load.loops import Body, Sent, Window, closed_loop

# Parts of the window, whose differences say how much a figure is worth.
SLICES = 5
# How often its stated length a window may grow to, for answers that are slow to come.
GROWTH = 4


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


def measured(
    port: int, path: str, bodies: Sequence[Body], clients: int, seconds: float, warm_up_s: float, least: int = 0
) -> Load:
    """Let `clients` ask in a closed loop, and measure the window that follows the warm-up."""
    window = Window(clients, seconds, warm_up_s, least, GROWTH)
    sent = closed_loop(port, path, bodies, window)
    return figures(sent, *window.bounds([one.done for one in sent]))


def figures(sent: Sequence[Sent], begin: float, end: float) -> Load:
    """The figures of a window. Latencies are of what was asked in it: the slowest may be answered after it."""
    good = [one for one in sent if one.ok]
    length = (end - begin) / SLICES
    slices = [sum(one.inside(begin + n * length, begin + (n + 1) * length) for one in good) for n in range(SLICES)]
    return Load(
        per_second=sum(slices) / (end - begin),
        noise=2 * statistics.stdev(slices) / length / math.sqrt(SLICES),
        latencies_ms=tuple(sorted((one.done - one.due) * 1000 for one in good if begin <= one.due < end)),
        statuses=Counter(one.status for one in sent if not one.ok),
    )
