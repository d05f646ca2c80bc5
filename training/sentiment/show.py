"""Figures as tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from training.sentiment.card import score_columns, score_rows

MB = 1_000_000
PIPED_WIDTH = 120  # characters, where there is no terminal to ask


def show(*things: Table | str) -> None:
    """Print on standard output."""
    out = Console(highlight=False)
    if not out.is_terminal:
        out = Console(highlight=False, width=PIPED_WIDTH)
    for thing in things:
        out.print(thing, soft_wrap=isinstance(thing, str))


def scores(result: Mapping[str, Any]) -> Table:
    """Return the baselines and the model's splits as a table."""
    table = Table()
    for index, name in enumerate(score_columns(result)):
        table.add_column(name, justify="right" if index else "left")
    for row in score_rows(result):
        table.add_row(*row)
    return table


def variants(result: Mapping[str, Any]) -> Table:
    """Return what `ablate` measured as a table."""
    memory = "GPU memory, MB" if result["hardware"]["gpus"] else "memory, MB"
    table = Table()
    for index, name in enumerate(
        ("", "steps/s", "samples/s", "CPU s/step", memory, "speed-up", "warm-up, s", "final loss")
    ):
        table.add_column(name, justify="right" if index else "left", no_wrap=True)
    for name, one in result["variants"].items():
        table.add_row(
            name,
            f"{one['steps_per_second']:.3g}",
            f"{one['samples_per_second']:.3g}",
            f"{one['cpu_seconds_per_step']:.3g}",
            f"{one['peak_bytes'] / MB:,.0f}",
            f"{one['speed_up']:.2f}x",
            f"{one['warm_up_seconds']:.1f}",
            f"{one['final_loss']:.4f}",
        )
    return table
