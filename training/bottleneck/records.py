"""What a timed run leaves in its folder, and reading it again.

run.json            facts of the run, `RunFacts`
steps-rankR.jsonl   one line a step, by `StepClock`
samples.jsonl       one line a sampling, by `Sampler`
kernels.json        by `training.bottleneck.kernels`
"""

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from training.bottleneck.clock import PHASES
from training.errors import TrainingError

FACTS, SAMPLES, KERNELS = "run.json", "samples.jsonl", "kernels.json"
# Time of a step in no phase.
OTHER = "other"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What advice depends on: `workers` and `threads` of each rank, `ranks` and `cores` of this machine."""

    device: str
    workers: int
    ranks: int
    cores: int
    threads: int
    bf16: bool
    bf16_capable: bool

    @classmethod
    def here(cls, device: torch.device, *, workers: int, ranks: int = 1, bf16: bool = False) -> "RunFacts":
        """Facts of a run on this machine; `bf16` says whether it is on."""
        cores = len(os.sched_getaffinity(0))
        capable = bf16_capable(device)
        return cls(device.type, workers, ranks, cores, torch.get_num_threads(), bf16, capable)

    def write(self, folder: Path) -> None:
        """Write run.json, whole or not at all."""
        write_json(asdict(self), folder / FACTS)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a rank: samples, its wall time, and the time of each phase and of none (OTHER), in seconds."""

    number: int
    rank: int
    samples: int
    seconds: float
    phases: dict[str, float]


@dataclass(frozen=True, slots=True)
class Run:
    """All that a folder holds; what was not recorded is None or empty."""

    facts: RunFacts | None
    steps: list[Step]
    samples: list[dict[str, Any]]
    kernels: dict[str, Any] | None


def bf16_capable(device: torch.device) -> bool:
    """Whether the device multiplies in bfloat16 by itself (on x86-64 AVX-512 or AMX, not their emulation)."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return any(found for name, found in torch.cpu.get_capabilities().items() if "bf16" in name)


def read_run(folder: Path) -> Run:
    """Read a run, also one that was killed or goes on; raises TrainingError when it holds no steps or is damaged."""
    files = sorted(folder.glob("steps-rank*.jsonl"))
    if not files:
        raise TrainingError(f"{folder.name} holds no steps-rank*.jsonl: name the folder that a StepClock wrote to.")
    steps = [step for file in files for step in _steps(file)]
    samples = folder / SAMPLES
    facts, kernels = _read_json(folder / FACTS), _read_json(folder / KERNELS)
    return Run(
        _facts(facts, folder) if facts is not None else None,
        steps,
        [line for _, line in _lines(samples)] if samples.exists() else [],
        kernels,
    )


def write_json(content: Any, path: Path) -> None:
    """Write JSON under its final name whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def _steps(file: Path) -> list[Step]:
    """The steps of a rank in order; of a step that was done again after a resume, the last time."""
    rank = file.stem.removeprefix("steps-rank")
    found = {}
    for number, line in _lines(file):
        try:
            phases = {name: float(line[name]) for name in PHASES}
            seconds = float(line["seconds"])
            phases[OTHER] = max(0.0, seconds - sum(phases.values()))
            step = Step(int(line["step"]), int(rank), int(line["samples"]), seconds, phases)
        except (KeyError, TypeError, ValueError):
            raise TrainingError(
                f"Line {number} of {file.name} is no step: remove it, or record the run anew."
            ) from None
        found[step.number] = step
    return [found[number] for number in sorted(found)]


def _lines(file: Path) -> list[tuple[int, dict[str, Any]]]:
    """Numbered JSON objects; a last line without its end is what a kill left, and passed over."""
    whole, _, _ = file.read_text(encoding="utf-8", errors="replace").rpartition("\n")
    found = []
    for number, text in enumerate(whole.splitlines(), start=1):
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if not isinstance(line, dict):
            raise TrainingError(f"Line {number} of {file.name} is damaged: remove it, or record the run anew.")
        found.append((number, line))
    return found


def _facts(found: dict[str, Any], folder: Path) -> RunFacts:
    names = {field.name for field in fields(RunFacts)}
    if names - found.keys():
        raise TrainingError(f"{FACTS} of {folder.name} lacks {', '.join(sorted(names - found.keys()))}: remove it.")
    return RunFacts(**{name: found[name] for name in names})


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise TrainingError(f"{path.name} is damaged: remove it, or record the run anew.")
    return found
