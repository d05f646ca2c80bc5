"""What a run found, as plain data that JSON holds: everything that tables, plots and comparisons are made from."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FORMAT = 1
PERCENTILES = (50, 90, 95, 99)
DIRECTORIES = re.compile(r"(?<![\w.~/])(?:~|(?=/))(?:/[^\s/'\"=,:]+)*/(?=[^\s/])")

Results = dict[str, Any]


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Median and spread of a figure's rounds, and the rounds."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": list(values)}


def percentiles(sorted_values: Sequence[float]) -> dict[str, float]:
    """The percentiles of sorted values, and their largest, by nearest rank; empty of none."""
    if not sorted_values:
        return {}
    count = len(sorted_values)
    ranks = {f"p{p}": sorted_values[max(0, -(-count * p // 100) - 1)] for p in PERCENTILES}
    return {**ranks, "max": sorted_values[-1], "count": float(count)}


def throughput(one: Results) -> dict[str, Any]:
    """Answers/s of a subject with all clients, or in process."""
    figures = one["in_process"] if "in_process" in one else one["closed"][max(one["closed"], key=int)]
    speed: dict[str, Any] = figures["per_second"]
    return speed


def lone_p50(one: Results) -> dict[str, Any] | None:
    """The median latency in ms of one client, None where none was answered or the subject is no server."""
    closed = one.get("closed", {})
    if "1" not in closed:
        return None
    found: dict[str, Any] | None = closed["1"]["latency_ms"].get("p50")
    return found


def placeless(text: str) -> str:
    """A text without this machine's directories: of an absolute path, or one of a home, the last component is kept."""
    return DIRECTORIES.sub("", text)


def save(results: Results, path: Path) -> None:
    """Write results as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> Results:
    """Read what `save` wrote. Raises ValueError for another file, OSError for none."""
    results: Results = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(results, dict) or results.get("format") != FORMAT:
        raise ValueError(f"{path} holds no results of this benchmark")
    return results
