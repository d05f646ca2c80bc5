"""Hold every price of handlers/ against what the steps really cost: slow files, at the edge of what is allowed.

    python -m benchmarks.hostile.prices [--only WORD]

For each kind of slow image it finds the largest file that is not refused by counting, decodes it, and prints what was
stated, what it took of a core and what memory it added. The exit code is 1 where a file took more than one request may.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.hostile.cost import Cost, cost_of, largest
from benchmarks.hostile.slow import IMAGES, takes_a_side
from handlers.settings import Options
from handlers.work import WORK_MS

MS_PER_S = 1000
# What one request may take and add (the README).
MOST_S, MOST_MB = WORK_MS / MS_PER_S, 500
# Amounts to search: pixels of a side, where a square has at most as many as one image may; and counts of anything.
MOST_SIDE, MOST_COUNT = int(Options().max_pixels ** 0.5) + 1, 7_000_000
# Encoders take minutes for larger ones.
MOST_ENCODED_SIDE, ENCODED = 5_000, ("WebP", "GIF", "AVIF")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a row for each kind; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="kinds whose names hold this")
    only = parser.parse_args(arguments).only
    table = Table("kind", "amount", "bytes", "status", "stated, s", "taken, s", "added, MB")
    passed = True
    for kind in (name for name in IMAGES if only in name):
        amount, size, cost = measured(kind)
        passed &= holds(cost)
        numbers = (f"{cost.stated_s:.2f}", f"{cost.taken_s:.2f}", f"{cost.grown_mb:.0f}")
        table.add_row(kind, f"{amount:,}", f"{size:,}", str(cost.status), *numbers, style="" if holds(cost) else "red")
    Console().print(table)
    return 0 if passed else 1


def measured(kind: str) -> tuple[int, int, Cost]:
    """The largest amount that is allowed, the size of its file, and what it cost."""
    make = IMAGES[kind]
    sides = MOST_ENCODED_SIDE if kind.startswith(ENCODED) else MOST_SIDE
    amount = largest(make, sides if takes_a_side(make) else MOST_COUNT)
    data = make(amount)
    return amount, len(data), cost_of(data)


def holds(cost: Cost) -> bool:
    """Whether it took no more than a request may."""
    return cost.taken_s <= MOST_S and cost.grown_mb <= MOST_MB


if __name__ == "__main__":
    sys.exit(main())
