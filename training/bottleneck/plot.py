"""Stacked plots: a run's phases over its steps, and step time by number of loader workers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from training.bottleneck.clock import PHASES
from training.bottleneck.records import OTHER, Step

SIZE_INCHES = (9, 4.5)
DPI = 150
# More steps than this are averaged in groups, so that each bar can be seen.
BARS = 150
COLOURS = dict(
    zip((*PHASES, OTHER), ("tab:orange", "tab:blue", "tab:green", "tab:red", "tab:purple", "lightgrey"), strict=True)
)


def plot_steps(steps: Sequence[Step]) -> Figure:
    """Bars of the time of each step of the lowest rank in ms, stacked by phase."""
    first = min(step.rank for step in steps)
    own = [step for step in steps if step.rank == first]
    groups = np.array_split(np.arange(len(own)), min(BARS, len(own)))
    heights = {
        name: [1000 * float(np.mean([own[i].phases[name] for i in group])) for group in groups] for name in COLOURS
    }
    figure = Figure(SIZE_INCHES, layout="constrained")
    axes = figure.subplots()
    _stack(axes, [own[group[0]].number for group in groups], heights, width=max(1.0, len(own) / len(groups)))
    axes.set(title=f"Where each step's time goes (rank {first})", xlabel="step", ylabel="ms")
    return figure


def plot_workers(rows: Sequence[dict[str, Any]], cores: int) -> Figure:
    """Bars of a lesson's mean step by number of workers, stacked by phase, the fastest being 1; whiskers to p95."""
    figure = Figure(SIZE_INCHES, layout="constrained")
    axes = figure.subplots()
    best = min(row["step_s"] for row in rows)
    heights = {name: [row["phases"][name] / best for row in rows] for name in COLOURS}
    positions = list(range(len(rows)))
    _stack(axes, positions, heights, width=0.7)
    tops = [row["step_s"] / best for row in rows]
    above = [max(0.0, row["p95_s"] / best - top) for row, top in zip(rows, tops, strict=True)]
    axes.errorbar(
        positions, tops, yerr=[[0.0] * len(rows), above], fmt="none", ecolor="black", capsize=4, label="to p95"
    )
    axes.set_xticks(positions, [str(row["workers"]) for row in rows])
    axes.set(title=f"Loader workers on {cores} cores", xlabel="loader workers", ylabel="time of a step, fastest = 1")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def save_plot(figure: Figure, path: Path) -> None:
    """Write a PNG under its final name whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    figure.savefig(partial, dpi=DPI, format="png")
    partial.replace(path)


def _stack(axes: Any, positions: Sequence[int], heights: dict[str, list[float]], width: float) -> None:
    """Draw bars on each other, the first phase lowest; phases that take no time are left out of the legend."""
    bottom = np.zeros(len(positions))
    for name, height in heights.items():
        label = name if any(height) else f"_{name}"
        axes.bar(positions, height, width, bottom, color=COLOURS[name], label=label, align="center")
        bottom += height
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
