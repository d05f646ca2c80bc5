"""Plots, drawn from the results alone: latency against load, and throughput beside the limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.speed.results import Results
from benchmarks.speed.roster import OURS

SIZE_INCHES = (8, 4.5)
DPI = 150
OUR_COLOUR, OTHER_COLOUR = "tab:blue", "lightsteelblue"
GRID_OPACITY = 0.3
LIMIT_STYLES = {"fp32": "--", "int8": ":"}


def plots(results: Results, directory: Path) -> list[Path]:
    """Write two PNG files for each kind of input; their paths. Needs matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for task, found in results["tasks"].items():
        for chosen, figures in found["sets"].items():
            stem = f"{task}-{chosen}".replace(" ", "-")
            written.append(_throughput(f"{task}, {chosen}", figures, results["limit"], directory / f"{stem}.png"))
            written.append(_latency(f"{task}, {chosen}", figures, directory / f"{stem}-latency.png"))
    return written


def _throughput(title: str, figures: Results, limit: dict[str, float], path: Path) -> Path:
    """Bars with their spread; a server that has no model would dwarf them, and is left out."""
    from matplotlib import pyplot

    speeds: dict[str, Any] = {}
    for name, one in figures["subjects"].items():
        if "in_process" in one:
            speeds[name] = one["in_process"]["per_second"]
        elif one["agreement"] is not None:
            speeds[name] = one["closed"][max(one["closed"], key=int)]["per_second"]
    figure, axes = pyplot.subplots(figsize=SIZE_INCHES)
    medians = [speed["median"] for speed in speeds.values()]
    spread = [
        [speed["median"] - speed["min"] for speed in speeds.values()],
        [speed["max"] - speed["median"] for speed in speeds.values()],
    ]
    colours = [OUR_COLOUR if name.partition(":")[0] == OURS else OTHER_COLOUR for name in speeds]
    axes.bar(list(speeds), medians, yerr=spread, capsize=4, color=colours)
    for precision, operations in limit.items():
        style = LIMIT_STYLES.get(precision, "-.")
        axes.axhline(operations / figures["flops"], linestyle=style, color="grey", label=f"limit, {precision}")
    axes.set(title=title, ylabel="answers/s")
    axes.legend()
    return _saved(figure, path)


def _latency(title: str, figures: Results, path: Path) -> Path:
    """The median as a line, and p95 above it, against the arrivals a second."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=SIZE_INCHES)
    for name, one in figures["subjects"].items():
        points = [point for point in one.get("open", []) if point["latency_ms"]]
        if not points or one["agreement"] is None:
            continue
        rates = [point["rate"] for point in points]
        (line,) = axes.plot(rates, [point["latency_ms"]["p50"] for point in points], marker="o", label=name)
        worst = [point["latency_ms"]["p95"] for point in points]
        axes.plot(rates, worst, marker="^", linestyle="--", color=line.get_color())
    axes.set(title=title, xlabel="arrivals/s", ylabel="latency, ms: p50, and p95 dashed", yscale="log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(which="both", alpha=GRID_OPACITY)
    if axes.get_legend_handles_labels()[0]:
        # Beside the lines, of which some reach every corner.
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return _saved(figure, path)


def _saved(figure: Any, path: Path) -> Path:
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path, dpi=DPI)
    pyplot.close(figure)
    return path
