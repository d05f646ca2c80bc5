"""The report of a timed run: each phase's median, spread and share, what the machine did, and advice."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from training.bottleneck.advice import Findings, advise
from training.bottleneck.clock import PHASES
from training.bottleneck.kernels import kernels_table
from training.bottleneck.records import OTHER, Run, Step
from training.errors import TrainingError

ROWS = (*PHASES, OTHER)
# The first steps of a process fill caches and the loader's queue.
WARM_UP_STEPS = 3
FEWEST_STEPS = 5
GIB = 2**30


def summarise(run: Run) -> dict[str, Any]:
    """Return everything that table, JSON and advice say; times in seconds, shares and uses in 0..1.

    `cv` is the standard deviation over the mean. The first WARM_UP_STEPS of each rank are left out; raises
    TrainingError where fewer than FEWEST_STEPS remain.
    """
    steps = settled(run.steps)
    if len(steps) < FEWEST_STEPS:
        raise TrainingError(
            f"The run has {len(run.steps)} steps, and the first {WARM_UP_STEPS} of a rank do not count: "
            f"record {WARM_UP_STEPS + FEWEST_STEPS} or more."
        )
    whole = sum(step.seconds for step in steps)
    phases = {}
    for name in ROWS:
        times = [step.phases[name] for step in steps]
        phases[name] = spread(times) | {"share": sum(times) / whole if whole else 0.0}
    ranks = sorted({step.rank for step in steps})
    medians = {rank: statistics.median(step.seconds for step in steps if step.rank == rank) for rank in ranks}
    machine = _machine(run.samples)
    findings = Findings(
        {name: phases[name]["share"] for name in ROWS},
        {name: phases[name]["cv"] for name in ROWS},
        run.facts,
        machine["cores_use"] if machine else None,
        machine["other_cores"] if machine else None,
        run.kernels["gemm_share"] if run.kernels else None,
    )
    return {
        "facts": asdict(run.facts) if run.facts else None,
        "steps": len(steps),
        "ranks": {str(rank): median for rank, median in medians.items()},
        "samples_per_s": sum(step.samples for step in steps) / whole * len(ranks) if whole else None,
        "step": spread([step.seconds for step in steps]),
        "phases": phases,
        "machine": machine,
        "kernels": run.kernels,
        "advice": [asdict(advice) for advice in advise(findings)],
    }


def settled(steps: Sequence[Step]) -> list[Step]:
    """The steps after each rank's first WARM_UP_STEPS."""
    seen: dict[int, int] = {}
    kept = []
    for step in steps:
        seen[step.rank] = seen.get(step.rank, 0) + 1
        if seen[step.rank] > WARM_UP_STEPS:
            kept.append(step)
    return kept


def spread(times: Sequence[float]) -> dict[str, float]:
    """Median, interquartile range, 95th percentile (linear interpolation) and coefficient of variation of times."""
    low, median, high, p95 = np.percentile(times, [25, 50, 75, 95])
    mean = float(np.mean(times))
    cv = float(np.std(times)) / mean if mean else 0.0
    return {"median_s": float(median), "iqr_s": float(high - low), "p95_s": float(p95), "cv": cv}


def show(found: dict[str, Any], console: Console) -> None:
    """Print a summary as tables and sentences."""
    table = Table(title=_title(found), title_justify="left", box=SIMPLE_HEAD)
    table.add_column("phase")
    for title in ("median, ms", "IQR, ms", "p95, ms", "variation", "share"):
        table.add_column(title, justify="right")
    for name, row in [*found["phases"].items(), ("step", found["step"] | {"share": 1.0})]:
        times = [f"{1000 * row[key]:.1f}" for key in ("median_s", "iqr_s", "p95_s")]
        table.add_row(name, *times, f"{row['cv']:.0%}", f"{row['share']:.0%}")
    console.print(table)
    if machine := found["machine"]:
        console.print(_machine_line(machine))
    if found["kernels"]:
        console.print(kernels_table(found["kernels"]))
    for advice in found["advice"]:
        console.print(f"[bold]{advice['rule']}[/bold]: {advice['seen']} {advice['change']}", highlight=False)


def _title(found: dict[str, Any]) -> str:
    parts = [f"{found['steps']} steps"]
    if found["samples_per_s"] is not None:
        parts.append(f"{found['samples_per_s']:.1f} samples/s")
    if facts := found["facts"]:
        parts.append(f"{facts['device']}, loader workers {facts['workers']}, cores {facts['cores']}")
    if len(found["ranks"]) > 1:
        parts.append(f"all {len(found['ranks'])} ranks")
    return ", ".join(parts)


def _machine(samples: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Means of the use of cores and GPU, largest memory and number of workers; None without samples."""
    if not samples:
        return None
    cores = [statistics.fmean(column) for column in zip(*(sample["cores"] for sample in samples), strict=False)]
    process = statistics.fmean(sample["process"] for sample in samples)
    gpu_use = [sample["gpu_use"] for sample in samples if sample.get("gpu_use") is not None]
    return {
        "cores_use": statistics.fmean(cores),
        "cores": cores,
        "process_cores": process,
        "other_cores": max(0.0, sum(cores) - process),
        "rss_bytes": max(sample["rss_bytes"] for sample in samples),
        "workers": max(sample["workers"] for sample in samples),
        "gpu_use": statistics.fmean(gpu_use) if gpu_use else None,
        "gpu_bytes": max((sample["gpu_bytes"] for sample in samples if "gpu_bytes" in sample), default=None),
    }


def _machine_line(machine: dict[str, Any]) -> str:
    parts = [
        f"Cores {machine['cores_use']:.0%} busy, {machine['process_cores']:.1f} of {len(machine['cores'])} by training",
        f"resident memory {machine['rss_bytes'] / GIB:.2f} GiB",
        f"{machine['workers']} loader workers seen",
    ]
    if machine["gpu_use"] is not None:
        parts.append(f"GPU {machine['gpu_use']:.0%} busy")
    if machine["gpu_bytes"] is not None:
        parts.append(f"GPU memory {machine['gpu_bytes'] / GIB:.2f} GiB")
    return ", ".join(parts) + "."
