"""Runs that tests make up: records of known times."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from training.bottleneck.advice import Findings
from training.bottleneck.clock import PHASES, steps_file
from training.bottleneck.records import FACTS, RunFacts, write_json

# Seconds; the step takes one, of which a tenth in no phase.
STEP = {"data": 0.05, "forward": 0.25, "backward": 0.45, "communication": 0.1, "optimizer": 0.05}


def line(number: int, samples: int = 8, **changes: float) -> str:
    phases = STEP | changes
    seconds = 0.1 + sum(phases.values())
    return json.dumps({"step": number, "samples": samples, "seconds": seconds, **phases}) + "\n"


def write_steps(folder: Path, lines: Iterable[str], rank: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    steps_file(folder, rank).write_text("".join(lines))
    return folder


def facts(**changes: object) -> RunFacts:
    common: dict[str, object] = {"device": "cpu", "workers": 2, "ranks": 1, "cores": 8, "threads": 4, "bf16": False}
    return RunFacts(**{**common, "bf16_capable": True, **changes})  # type: ignore[arg-type]


def write_facts(folder: Path, found: Mapping[str, object]) -> None:
    write_json(found, folder / FACTS)


def findings(share: Mapping[str, float] | None = None, **changes: object) -> Findings:
    """Findings of which no rule says anything, with changes; `cv` is backward's."""
    shares = dict.fromkeys((*PHASES, "other"), 0.0) | {"forward": 0.3, "backward": 0.3} | dict(share or {})
    spreads = dict.fromkeys(shares, 0.0) | {"backward": changes.pop("cv", 0.0)}
    given: dict[str, object] = {"facts": facts(), "cores_use": 0.5, "other_load": 0.2, "gemm_share": 0.4, **changes}
    return Findings(shares, spreads, **given)  # type: ignore[arg-type]
