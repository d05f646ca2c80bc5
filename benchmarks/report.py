"""The results as tables: on the terminal, and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from benchmarks.results import Results
from benchmarks.roster import OURS

MB = 1_000_000
GIGA = 1_000_000_000
# The load, as a share of a subject's own peak, at which the table shows latencies.
SHOWN_LOAD = 0.5


@dataclass(frozen=True, slots=True)
class Section:
    """One table: a title, the names of its columns, and its rows."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def sections(results: Results) -> Iterator[Section]:
    """Of each task one table of what starts and stays, and one of speed for each kind of input."""
    for task, found in results["tasks"].items():
        for chosen, figures in found["sets"].items():
            yield _speed(f"{task}, {chosen}", figures, found["subjects"], results["limit"])
        yield _footprint(task, found["subjects"])


def _speed(title: str, figures: Results, facts: Results, limit: dict[str, float]) -> Section:
    columns = (
        "",
        "answers/s (min to max)",
        "Marsmith / this",
        "p50, ms, 1 client",
        "p50 / p95 / p99, ms, half load",
        "right",
    )
    measured = figures["subjects"]
    # The default precision, or the first of those that were named.
    best = next((name for name in sorted(measured) if name.partition(":")[0] == OURS), None)
    ours = _per_second(measured[best])["median"] if best else None
    rows = []
    for name, one in measured.items():
        speed = _per_second(one)
        ratio = f"{ours / speed['median']:.2f}x" if ours and speed["median"] else ""
        rows.append((_titled(name, facts), _spread(speed), ratio, _single(one), _half_load(one), _right(one)))
    for precision, operations in limit.items():
        bound = operations / figures["flops"]
        ratio = f"{ours / bound:.2f}x" if ours else ""
        rows.append((f"limit: {precision} matrix products alone", f"{bound:.1f}", ratio, "", "", ""))
    return Section(title, columns, rows)


def _footprint(task: str, facts: Results) -> Section:
    columns = (
        "",
        "worker ready, s",
        "server ready, s",
        "build, s",
        "archive, MB",
        "one worker, MB",
        "further worker, MB",
    )
    rows = []
    for name, one in facts.items():
        memory = one.get("memory")
        rows.append(
            (
                _titled(name, facts),
                *(_spread(one.get(key)) for key in ("worker_s", "start_s")),
                f"{one['pack_s']:.1f}" if "pack_s" in one else "",
                f"{one['archive_bytes'] / MB:.0f}" if "archive_bytes" in one else "",
                *(f"{memory[key]['pss'] / MB:.0f}" if memory else "" for key in ("one_worker", "further_worker")),
            )
        )
    return Section(f"{task}: start and memory (PSS)", columns, rows)


def _per_second(one: Results) -> dict[str, Any]:
    figures: dict[str, Any] = one["in_process"] if "in_process" in one else one["closed"][max(one["closed"], key=int)]
    speed: dict[str, Any] = figures["per_second"]
    return speed


def _single(one: Results) -> str:
    closed = one.get("closed", {})
    least = closed.get(min(closed, key=int)) if closed else None
    return _spread(least["latency_ms"].get("p50")) if least else ""


def _half_load(one: Results) -> str:
    measured = [point for point in one.get("open", []) if point["latency_ms"]]
    if not measured:
        return ""
    nearest = min(measured, key=lambda point: abs(point["load"] - SHOWN_LOAD))
    return " / ".join(f"{nearest['latency_ms'][key]:.0f}" for key in ("p50", "p95", "p99"))


def _right(one: Results) -> str:
    found = one.get("agreement")
    if not found:
        return ""
    return f"{found['share']:.1%}{'' if found['ok'] else ' WRONG'}"


def _titled(name: str, facts: Results) -> str:
    return f"{name}: {facts[name]['title']}" if name in facts and not name.startswith(OURS) else name


def _spread(figure: dict[str, Any] | None) -> str:
    if not figure:
        return ""
    if figure["min"] == figure["max"]:
        return f"{figure['median']:.1f}"
    return f"{figure['median']:.1f} ({figure['min']:.1f} to {figure['max']:.1f})"


def wrong(results: Results) -> list[str]:
    """What must not be published: subjects whose answers are not the checkpoint's, or that refused some requests."""
    found = []
    for task, one in results["tasks"].items():
        for chosen, figures in one["sets"].items():
            for name, measured in figures["subjects"].items():
                agreement = measured.get("agreement")
                if agreement and not agreement["ok"]:
                    found.append(
                        f"{name} gives {agreement['share']:.1%} of {agreement['compared']} answers to {chosen} right"
                    )
                loops = [*measured.get("closed", {}).values(), *measured.get("open", [])]
                if refused := sum(loop["failed"] for loop in loops):
                    found.append(f"{name} did not answer {refused} requests ({task}, {chosen})")
    return found


def conditions(results: Results) -> list[str]:
    """Under what all this was measured, a line each."""
    machine, settings, limit = results["machine"], results["settings"], results["limit"]
    features = ", ".join(machine["features"]) or "none of note"
    rates = ", ".join(f"{name} {value / GIGA:.0f} G/s" for name, value in limit.items())
    return [
        f"{machine['cpu']} ({machine['architecture']}: {features}), {machine['cores']} cores",
        f"One worker of {settings['threads']} threads, batches of {settings['batch_size']} after "
        f"{settings['delay_ms']} ms (B0: of 1)",
        f"{settings['rounds']} rounds of {settings['seconds']:.0f} s, alternating",
        f"Matrix products, operations: {rates}",
        ", ".join(f"{name} {version}" for name, version in results["versions"].items()),
        f"`{results['command']}`",
        *(f"Skipped: {why}" for task in results["tasks"].values() for why in task["skipped"].values()),
    ]


def tables(results: Results) -> Iterator[Table]:
    """The sections for a terminal."""
    for section in sections(results):
        table = Table(*section.columns, title=section.title)
        for row in section.rows:
            table.add_row(*row)
        yield table


def markdown(results: Results) -> str:
    """The sections in Markdown, and below them the conditions."""
    lines: list[str] = []
    for section in sections(results):
        lines += [f"### {section.title}", "", _line(section.columns), _line(("---",) * len(section.columns))]
        lines += [*(_line(row) for row in section.rows), ""]
    return "\n".join([*lines, *(f"- {line}" for line in conditions(results))]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
