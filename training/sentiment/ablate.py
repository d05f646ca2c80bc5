"""What torch.compile, bf16 and the fused optimizer gain on this machine: the same steps, each in a fresh process."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from training.errors import TrainingError
from training.report.machine import hardware, versions
from training.sentiment.settings import Settings

PLAIN: dict[str, Any] = {"torch_compile": False, "bf16": False, "optim": "adamw_torch"}
# Each is laid over PLAIN.
CHANGES: dict[str, dict[str, Any]] = {
    "baseline": {},
    "+compile": {"torch_compile": True},
    "+bf16": {"bf16": True},
    "+fused": {"optim": "adamw_torch_fused"},
    "all": {"torch_compile": True, "bf16": True, "optim": "adamw_torch_fused"},
}

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Measurement:
    """How to measure: `steps` are timed after `warm_up` that are not; each variant runs once a round."""

    base: str
    train: str
    steps: int
    warm_up: int
    rounds: int
    mend: bool


def ablate(plan: Measurement, settings: Settings, console: Console) -> Result:
    """Measure every variant; return plain values. Raises TrainingError where one fails.

    Rounds are interleaved, so that what else the machine does falls on all variants alike; figures are medians.
    """
    busy = os.getloadavg()[0]
    runs: dict[str, list[Result]] = {name: [] for name in CHANGES}
    for turn in range(plan.rounds):
        for name, change in CHANGES.items():
            with console.status(f"round {turn + 1} of {plan.rounds}: {name}"):
                runs[name].append(measure(plan, dataclasses.replace(settings, **PLAIN | change)))
            console.log(f"{name}: {runs[name][-1]['steps_per_second']:.3g} steps/s")
    variants = {name: summary(found) for name, found in runs.items()}
    base = variants["baseline"]["steps_per_second"]
    for one in variants.values():
        one["speed_up"] = one["steps_per_second"] / base
    return {
        "measurement": dataclasses.asdict(plan),
        "settings": settings.table(),
        "variants": variants,
        "hardware": hardware(),
        "load_average": busy,
        "versions": versions(),
    }


def summary(runs: list[Result]) -> Result:
    """Medians of a variant's rounds, and the rounds themselves."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]} | {"rounds": runs}


def measure(plan: Measurement, settings: Settings) -> Result:
    """The figures of one run, in a process of its own. Raises TrainingError."""
    asked = json.dumps({"plan": dataclasses.asdict(plan), "settings": settings.table()})
    command = [sys.executable, "-m", "training.sentiment.timing", asked]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        said = ended.stderr.strip().splitlines()
        raise TrainingError(said[-1].removeprefix("Error: ") if said else f"a run ended with {ended.returncode}.")
    result: Result = json.loads(ended.stdout.splitlines()[-1])
    return result
