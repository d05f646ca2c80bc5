"""The results as tables: on the terminal, and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from benchmarks.speed.results import Results, lone_p50, throughput
from benchmarks.speed.roster import OURS
from benchmarks.speed.targets import reached

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
    """Of each task one table of what starts and stays, and one of speed for each kind of input; then the targets."""
    for task, found in results["tasks"].items():
        for chosen, figures in found["sets"].items():
            yield _speed(f"{task}, {chosen}", figures, found["subjects"], results["limit"])
        yield _footprint(task, found["subjects"])
    if targets := _targets(results):
        yield targets


def _speed(title: str, figures: Results, facts: Results, limit: dict[str, float]) -> Section:
    measured = figures["subjects"]
    ours = [name for name in measured if name.partition(":")[0] == OURS]
    columns = (
        "",
        "answers/s (min to max)",
        *(f"{name} / this" for name in ours),
        "p50, ms, 1 client",
        "p50 / p95 / p99, ms, half load",
        "right",
    )
    speeds = [throughput(measured[name])["median"] for name in ours]
    rows = []
    for name, one in measured.items():
        speed = throughput(one)
        cells = (_titled(name, facts), _spread(speed), *_ratios(speeds, speed["median"]))
        rows.append((*cells, _spread(lone_p50(one)), _half_load(one), _right(one)))
    for precision, operations in limit.items():
        bound = operations / figures["flops"]
        cells = (f"limit: {precision} matrix products alone", f"{bound:.1f}", *_ratios(speeds, bound))
        rows.append((*cells, "", "", ""))
    return Section(title, columns, rows)


def _ratios(ours: Sequence[float], this: float) -> list[str]:
    return [f"{one / this:.2f}x" if this else "" for one in ours]


def _targets(results: Results) -> Section | None:
    rows = []
    for one in reached(results):
        bound = "" if one.bound is None else f"{'at least' if one.at_least else 'at most'} {one.bound:g}"
        met = "" if one.met is None else "yes" if one.met else "no"
        far = "" if one.margin is None else f"{one.margin:+.0%}"
        rows.append((one.name, one.subject, bound, f"{one.measured:.3g}", met, far))
    return Section("targets", ("", "of", "target", "measured", "met", "better by"), rows) if rows else None


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
    busy = " and ".join(f"{value:.1f} at the {when}" for when, value in machine["load_average"].items())
    return [
        f"{machine['cpu']} ({machine['architecture']}: {features}), {machine['cores']} cores, "
        f"clock governor {machine['governor']}",
        f"Load average {busy}",
        f"1 worker x {settings['threads']} threads, batches of {settings['batch_size']} after "
        f"{settings['delay_ms']} ms (B0: of 1)",
        f"{settings['rounds']} rounds of {settings['seconds']:.0f} s, alternating",
        f"Matrix products, operations: {rates}",
        ", ".join(f"{name} {version}" for name, version in results["versions"].items()),
        f"`{results['command']}`",
        *(
            f"{name}, {task}: {facts['accuracy']['label_agreement']:.1%} of {facts['accuracy']['inputs']} labels as in "
            f"fp32, no probability further off than {facts['accuracy']['max_probability_change']:.3f} (at its build)"
            for task, found in results["tasks"].items()
            for name, facts in found["subjects"].items()
            if "accuracy" in facts
        ),
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
