"""Figures as tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from training.sentiment.card import score_columns, score_rows


def scores(result: Mapping[str, Any]) -> Table:
    """Return the baselines and the model's splits as a table."""
    table = Table()
    for index, name in enumerate(score_columns(result)):
        table.add_column(name, justify="right" if index else "left")
    for row in score_rows(result):
        table.add_row(*row)
    return table
