"""Results as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from marsmith.client import Prediction
from marsmith.untrusted import printable

if TYPE_CHECKING:
    from marsmith.demo import Answer
    from marsmith.diff import Change
    from marsmith.inspection import Card
    from marsmith.lint.findings import Finding
    from marsmith.replay import Outcome
    from marsmith.scan import Problem

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
    table = Table(show_header=False, title=escape(f"{details.name} {details.version}"), title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    rows: list[tuple[str, object]] = [
        ("task", details.task),
        ("handler", details.handler),
        ("checkpoint", details.checkpoint),
        ("precision", details.precision),
        ("engine", details.engine),
        ("labels", ", ".join(details.labels) or "unknown"),
        ("workers", details.config.get("minWorkers", "the server's default")),
        (
            "batch",
            f"{details.config.get('batchSize', 1)} requests, {details.config.get('maxBatchDelay', 100)} ms",
        ),
        ("requirements", ", ".join(details.requirements) or "none"),
        ("licence", details.license),
        ("golden requests", details.golden),
        ("signature", details.signature),
        ("size", f"{size(details.size)} in {details.members} members"),
        ("sha256", details.sha256),
    ]
    for key, value in rows:
        table.add_row(key, escape(printable(str(value))))
    return table


def findings_table(findings: Sequence[Finding]) -> Table:
    """What lint found."""
    table = Table("code", "", "where", "what is wrong", "what to do")
    for one in findings:
        colour = "red" if one.severity == "error" else "yellow"
        table.add_row(one.code, f"[{colour}]{one.severity}[/]", *map(escape, (one.where, one.message, one.remedy)))
    return table


def problems_table(problems: Sequence[Problem]) -> Table:
    """What verification found."""
    table = Table("problem", "member", "what is wrong")
    for one in problems:
        table.add_row(one.kind, escape(printable(one.member or "—")), escape(one.message))
    return table


def changes_table(changes: Sequence[Change]) -> Table:
    """What changed between two archives; of a digest its beginning."""
    table = Table("", "what", "before", "after")
    for one in changes:
        before, after = (
            value[:12] if one.kind in ("weights", "code", "member") else value for value in (one.before, one.after)
        )
        table.add_row(one.kind, *(escape(printable(text or "—")) for text in (one.what, before, after)))
    return table


def outcomes_table(outcomes: Sequence[Outcome]) -> Table:
    """Golden requests: expected against got."""
    table = Table("request", "expected", "got", "", "differs in")
    for one in outcomes:
        got = one.prediction.body if one.prediction.ok else {}
        note = one.differences[0] if one.differences else ""
        table.add_row(
            escape(one.name), escape(_best(one.expected)), escape(_best(got)), "✓" if one.ok else "✗", escape(note)
        )
    return table


def _best(body: Any) -> str:
    """The best label of an answer with its score; the highest score where the answer leaves the order open."""
    if isinstance(body, dict) and body.get("dishes"):
        body = body["dishes"][0]
    if not isinstance(body, dict):
        return "—"
    if "label" not in body and isinstance(body.get("scores"), dict):
        numbers = [one for one in body["scores"].values() if isinstance(one, float)]
        return f"{max(numbers):.5f}" if numbers else "—"
    score = body.get("score")
    return printable(f"{body.get('label')} {score:.5f}") if isinstance(score, float) else "—"
