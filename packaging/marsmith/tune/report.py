"""What a run found, for people and for machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from marsmith.show import size
from marsmith.tune.machine import machine
from marsmith.tune.measure import Row
from marsmith.tune.others import DISTURBING
from marsmith.tune.recommend import Recommendation
from marsmith.tune.run import Tuning
from marsmith.tune.setting import Setting


def table(rows: Sequence[Row], recommendation: Recommendation | None, now: Setting, clients: int) -> Table:
    """A line for each row; the recommended one is marked, and the recipe as it is."""
    found = Table(title_justify="left")
    for heading in ("", "precision", "workers x threads", "batch", "delay", "requests/s"):
        found.add_column(heading, justify="left" if heading in ("", "precision") else "right")
    for heading in (
        f"p50 / p95, {clients} clients",
        "p50, 1 client",
        "memory",
        "right labels",
        "largest change",
        "failed",
    ):
        found.add_column(heading, justify="right")
    for row in rows:
        one, quality = row.setting, row.accuracy
        found.add_row(
            " ".join(("→",) * bool(recommendation and row is recommendation.row) + ("now",) * (one == now)),
            one.precision,
            f"{one.workers} x {one.threads}",
            str(one.batch_size),
            f"{one.max_batch_delay_ms} ms" if one.batch_size > 1 else "—",
            f"{row.per_second:.1f} ± {row.noise:.1f}",
            f"{row.p50_ms:.0f} / {row.p95_ms:.0f} ms",
            f"{row.lone_p50_ms:.1f} ms",
            size(row.memory_bytes),
            f"{quality.label_agreement:.1%} of {quality.inputs}",
            f"{quality.max_probability_change:.1g}",
            f"[red]{row.failed}[/]" if row.failed else "0",
        )
    return found


def summary(tuning: Tuning, recommendation: Recommendation | None) -> str:
    """What was not measured, what disturbed it, and what is recommended, in rich's markup."""
    lines = [f"not measured: {one.what}: {one.reason}" for one in tuning.refused]
    others, cores = max((row.others for row in tuning.rows), default=0.0), tuning.choices.cores
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
        "rows": [dataclasses.asdict(row) for row in tuning.rows],
        "refused": [dataclasses.asdict(one) for one in tuning.refused],
        "recommended": recommendation
        and {
            "setting": dataclasses.asdict(recommendation.row.setting),
            "reason": recommendation.reason,
        },
    }
