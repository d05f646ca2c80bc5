"""Results as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from marsmith.ground.untrusted import json_line, mapping, printable
from marsmith.ground.wording import size
from marsmith.rest.client import Prediction

if TYPE_CHECKING:
    from marsmith.demo import Answer
    from marsmith.diff import Change
    from marsmith.evidence.replay import Outcome
    from marsmith.inspection import Card
    from marsmith.lint.findings import Finding
    from marsmith.mar.problems import Problem


def answer(prediction: Prediction) -> tuple[str, str, str]:
    """A prediction as (label, score, note)."""
    if not prediction.ok:
        return "—", "", f"{prediction.status or 'not sent'}: {prediction.message}"
    body = mapping(prediction.body)
    best = _first_dish(body) or body
    if "label" not in best or not isinstance(best.get("score"), float):
        return printable(json_line(prediction.body)), "", ""
    note = _nutrition(best) if best is not body else "truncated" if body.get("truncated") else ""
    return printable(str(best["label"])), printable(f"{best['score']:.3f}"), note


def _first_dish(body: dict[str, Any]) -> dict[str, Any]:
    dishes = body.get("dishes")
    return mapping(dishes[0]) if isinstance(dishes, list) and dishes else {}


def _nutrition(dish: dict[str, Any]) -> str:
    energy = mapping(mapping(dish.get("nutrition")).get("per_100g")).get("energy_kcal")
    return printable(f"{energy:.0f} kcal per 100 g") if isinstance(energy, int | float) else "nutrition unknown"


def answers_table(answers: Sequence[Answer]) -> Table:
    """The demo's answers, each with whether it is right."""
    table = Table("model", "sample", "answer", "score", "note", "", title="Answers over REST", title_justify="left")
    for one in answers:
        mark = "✓" if one.right else f"✗ {escape(one.expected)}"
        table.add_row(one.model, escape(one.sample), *map(escape, answer(one.prediction)), mark)
    return table


def accuracy(numbers: dict[str, Any]) -> str:
    """How far a quantised network is from the checkpoint (accuracy.json)."""
    return (
        f"{numbers['label_agreement']:.2%} of {numbers['inputs']} labels alike and no probability more than "
        f"{numbers['max_probability_change']:.3f} apart"
    )


def card(details: Card) -> Table:
    """What an archive holds, as a two-column table."""
    table = Table(show_header=False, title=escape(f"{details.name} {details.version}"), title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    rows: list[tuple[str, object]] = [
        ("task", details.task),
        ("handler", details.handler),
        ("checkpoint", details.checkpoint),
        ("precision", details.precision + (f" ({accuracy(details.accuracy)})" if details.accuracy else "")),
        ("engine", details.engine),
        ("labels", ", ".join(details.labels) or "none stated"),
        ("workers", details.config.get("minWorkers", "the server's default")),
        (
            "batch",
            f"{details.config.get('batchSize', 1)} requests, {details.config.get('maxBatchDelay', 100)} ms",
        ),
        ("requirements", ", ".join(details.requirements) or "none"),
        *([("assumed on the server", ", ".join(details.assumed))] if details.assumed else []),
        *([("lint", "overruled by --lint warn")] if details.lint_overruled else []),
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
        table.add_row(one.kind, escape(printable(one.member or "—")), escape(printable(one.message)))
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
            *map(escape, (printable(one.name), _best(one.expected), _best(got))),
            "✓" if one.ok else "✗",
            escape(printable(note)),
        )
    return table


def _best(body: Any) -> str:
    """The best label of an answer with its score; the highest score where the answer leaves the order open.

    Of another answer, its JSON.
    """
    best = _first_dish(mapping(body)) or mapping(body)
    if "label" in best and isinstance(best.get("score"), float):
        return printable(f"{best['label']} {best['score']:.5f}")
    numbers = [one for one in mapping(best.get("scores")).values() if isinstance(one, float)]
    if numbers and best.keys() == {"scores"}:
        return f"{max(numbers):.5f}"
    return printable(json_line(body)) if body else "—"
