"""Plots as PNG bytes, drawn from plain numbers with matplotlib's objects: no window, no global state."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from training.report.calibration import Calibration

SIZE_INCHES, SQUARE_INCHES = (7.5, 4.0), (5.0, 4.5)
DPI = 120
GRID_OPACITY = 0.3
DARK = 0.5  # share of a row from which white figures read better than black ones

Points = Sequence[tuple[float, float]]


def lines(title: str, x: str, y: str, series: Mapping[str, Points], best: float | None = None) -> bytes:
    """A line of (x, y) points for each name; a dashed upright marks `best`. Axes are named `x` and `y`."""
    figure, axes = _new(SIZE_INCHES)
    for name, points in series.items():
        marker = "o" if len(points) < 40 else ""
        axes.plot([at for at, _ in points], [value for _, value in points], marker=marker, markersize=4, label=name)
    if best is not None:
        axes.axvline(best, linestyle="--", color="grey", label="kept")
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(alpha=GRID_OPACITY)
    axes.legend()
    return _png(figure)


def confusion(title: str, matrix: Sequence[Sequence[int]], names: Sequence[str]) -> bytes:
    """Counts, rows = labels, columns = answers, coloured by their share of the row."""
    counts = np.asarray(matrix, np.int64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure, axes = _new(SQUARE_INCHES)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for (row, column), share in np.ndenumerate(shares):
        text = f"{counts[row, column]:,}\n{share:.0%}"
        axes.text(column, row, text, ha="center", va="center", color="white" if share > DARK else "black")
    places = range(len(names))
    axes.set(title=title, xlabel="answer", ylabel="label", xticks=places, yticks=places)
    axes.set_xticklabels(names)
    axes.set_yticklabels(names, rotation=90, va="center")
    return _png(figure)


def reliability(title: str, found: Calibration) -> bytes:
    """Share of right answers against their mean confidence; on the diagonal the two agree."""
    figure, axes = _new(SQUARE_INCHES)
    axes.plot([0, 1], [0, 1], linestyle="--", color="grey")
    sizes = 20 + 300 * np.asarray(found.counts) / max(found.counts)
    axes.plot(found.confidence, found.accuracy, color="tab:blue", alpha=0.5)
    axes.scatter(found.confidence, found.accuracy, s=sizes, color="tab:blue", alpha=0.7)
    heading = f"{title}, ECE {found.ece:.3f}"
    axes.set(title=heading, xlabel="confidence", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
    axes.grid(alpha=GRID_OPACITY)
    return _png(figure)


def _new(size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots()


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()
