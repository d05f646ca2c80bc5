"""What a run found, for people and for machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from marsmith.tune.machine import machine
from marsmith.tune.measure import Row
from marsmith.tune.others import DISTURBING, counted_cores
from marsmith.tune.recommend import Recommendation
from marsmith.tune.run import Tuning
from marsmith.tune.setting import Setting, setting_of

# Wider than any table, to measure its own width by.
UNBOUNDED = 1000
# Numbers from here on have no decimals.
WHOLE = 100
MIB = 1 << 20
# The recommended row and the recipe as it is.
MARKS = 2
# Headings, and the unit below each.
FIGURES = (
    ("w x t", ""),
    ("batch", ""),
    ("delay", "ms"),
    ("requests", "/s"),
    ("p50/p95", "ms"),
    ("alone", "ms"),
    ("mem.", "MiB"),
    ("labels", "%"),
    ("change", ""),
    ("fail", ""),
)


def table(rows: Sequence[Row], recommendation: Recommendation | None, now: Setting) -> Table:
    """A line for each row; the recommended one is marked, and the recipe as it is: legend() says how."""
    found = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
    found.add_column(min_width=MARKS)
    for heading in ("prec", *(f"{title}\n{unit}" for title, unit in FIGURES)):
        found.add_column(heading, justify="left" if heading == "prec" else "right", no_wrap=True)
    for row in rows:
        one, quality = row.setting, row.accuracy
        found.add_row(
            "→" * bool(recommendation and row is recommendation.row) + "=" * (one == now),
            one.precision,
            f"{one.workers}x{one.threads}",
            str(one.batch_size),
            str(one.max_batch_delay_ms) if one.batch_size > 1 else "—",
            f"{_short(row.per_second)}±{_short(row.noise)}",
            f"{row.p50_ms:.0f}/{row.p95_ms:.0f}",
            _short(row.lone_p50_ms),
            f"{row.memory_bytes / MIB:.0f}",
            _short(100 * quality.label_agreement),
            f"{quality.max_probability_change:.1g}",
            f"[red]{row.failed}[/]" if row.failed else "0",
        )
    return found


def show(found: Table, console: Console) -> None:
    """Print a table; at its own width where nobody's terminal sets another."""
    if not console.is_terminal:
        found.width = Measurement.get(console, console.options.update(max_width=UNBOUNDED), found).maximum
    console.print(found, crop=False)


def legend(clients: int) -> str:
    """What the short headings of the table mean."""
    return (
        f"→ recommended, = the recipe as it is; p50/p95 of {clients} clients, alone: p50 of one; memory of all workers "
        "(PSS); labels right and largest change of a probability, beside the checkpoint."
    )


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= WHOLE else f"{number:.1f}"


def summary(tuning: Tuning, recommendation: Recommendation | None) -> str:
    """What was not measured, what disturbed it, and what is recommended, in rich's markup."""
    lines = [f"not measured: {one.what}: {one.reason}" for one in tuning.refused]
    now = setting_of(tuning.recipe, tuning.choices.cores)
    if now not in [row.setting for row in tuning.rows]:
        lines.append(f"The recipe as it is ({now}) was not measured, so what a change would gain is not known.")
    others, cores = max((row.others for row in tuning.rows), default=0.0), counted_cores()
    if others > DISTURBING * cores:
        lines.append(
            f"Other work took up to {others:.1f} of {cores} cores meanwhile, so the rows are hard to compare: "
            "tune again while the machine has nothing else to do."
        )
    if recommendation:
        lines.append(f"Recommended: {recommendation.reason}")
    return escape("\n".join(lines))


def document(tuning: Tuning, recommendation: Recommendation | None, what: str) -> dict[str, Any]:
    """The whole run as one JSON value."""
    bench = tuning.bench
    return {
        "recipe": tuning.recipe.name,
        "machine": machine(),
        "inputs": what,
        "clients": bench.clients,
        "seconds": bench.seconds,
        "rows": [dataclasses.asdict(row) | {"failed": row.failed} for row in tuning.rows],
        "refused": [dataclasses.asdict(one) for one in tuning.refused],
        "recommended": recommendation
        and {
            "setting": dataclasses.asdict(recommendation.row.setting),
            "reason": recommendation.reason,
        },
    }
