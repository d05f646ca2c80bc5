"""Which of the settings that were measured to serve with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from marsmith.tune.measure import Row

# How much slower than the quickest a lone request may be answered: throughput is not bought with every client's time.
LONE_SLACK = 1.2
# Of a quick model, 1.2 times is nothing that anybody would notice: so many ms more are always allowed.
LONE_SLACK_MS = 2.0
# Memory differs by that share from run to run.
MEMORY_SLACK = 1.05


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A row, and in one sentence why it is this one."""

    row: Row
    reason: str


def eligible(rows: Sequence[Row]) -> list[Row]:
    """The rows without a failure whose lone request is answered about as quickly as any, most requests/s first."""
    sound = [row for row in rows if not row.failed]
    quickest = min((row.lone_p50_ms for row in sound), default=0.0)
    limit = max(LONE_SLACK * quickest, quickest + LONE_SLACK_MS)
    return sorted((row for row in sound if row.lone_p50_ms <= limit), key=lambda row: -row.per_second)


def recommend(rows: Sequence[Row]) -> Recommendation | None:
    """The row to serve with, None when every row has failures.

    Of those that are as fast as the fastest within the noise of both, it is one of the least memory, then of the fewest
    workers, then the one that answers a lone request soonest.
    """
    fit = eligible(rows)
    if not fit:
        return None
    fastest = fit[0]
    tied = [row for row in fit if fastest.per_second - row.per_second <= fastest.noise + row.noise]
    small = min(row.memory_bytes for row in tied) * MEMORY_SLACK
    chosen = min(
        (row for row in tied if row.memory_bytes <= small), key=lambda row: (row.setting.workers, row.lone_p50_ms)
    )
    tie = f", the smallest of {len(tied)} that are alike," if len(tied) > 1 else ""
    return Recommendation(
        chosen,
        f"{chosen.setting} gave the most requests/s, {chosen.per_second:.1f}{tie or ','} of those that answered "
        "everything, and a lone request about as soon as the quickest.",
    )
