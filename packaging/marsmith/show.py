"""Results as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from marsmith.client import Prediction
from marsmith.demo import Answer
from marsmith.inspection import Card

KIB = 1024


def answer(prediction: Prediction) -> tuple[str, str, str]:
    """A prediction as (label, score, note)."""
    if not prediction.ok:
        return "—", "", f"{prediction.status or 'not sent'}: {prediction.message}"
    body = prediction.body
    best, note = body, "truncated" if isinstance(body, dict) and body.get("truncated") else ""
    if isinstance(body, dict) and "dishes" in body:
        best = body["dishes"][0] if body["dishes"] else {}
        note = _nutrition(best.get("nutrition"))
    if not isinstance(best, dict) or "label" not in best:
        return str(best), "", ""
    return str(best["label"]), f"{best['score']:.3f}", note


def _nutrition(entry: dict[str, Any] | None) -> str:
    if not entry or "energy_kcal" not in entry["per_100g"]:
        return "nutrition unknown"
    return f"{entry['per_100g']['energy_kcal']:.0f} kcal per 100 g"


def answers_table(answers: Sequence[Answer]) -> Table:
    """The demo's answers, each with whether it is right."""
    table = Table("model", "sample", "answer", "score", "note", "", title="Answers over REST", title_justify="left")
    for one in answers:
        mark = "✓" if one.right else f"✗ {escape(one.expected)}"
        table.add_row(one.model, escape(one.sample), *map(escape, answer(one.prediction)), mark)
    return table


def size(count: int) -> str:
    """A number of bytes for people."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < KIB:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= KIB
    return f"{value:.1f} GiB"


def card(details: Card) -> Table:
    """What an archive holds, as a two-column table."""
    table = Table(show_header=False, title=f"{details.name} {details.version}", title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    rows: list[tuple[str, object]] = [
        ("task", details.task),
        ("handler", details.handler),
        ("checkpoint", details.checkpoint),
        ("precision", details.precision),
        ("labels", ", ".join(details.labels) or "unknown"),
        ("workers", details.config.get("minWorkers", "the server's default")),
        (
            "batch",
            f"{details.config.get('batchSize', 1)} requests, {details.config.get('maxBatchDelay', 100)} ms",
        ),
        ("requirements", ", ".join(details.requirements) or "none"),
        ("size", f"{size(details.size)} in {details.members} members"),
        ("sha256", details.sha256),
    ]
    for key, value in rows:
        table.add_row(key, str(value))
    return table
