"""Who takes part: names on the command line, the classes behind them, and the Pythons that they need."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.speed import in_process
from benchmarks.speed.ours import Marsmith
from benchmarks.speed.peers import LitServe, MLServer
from benchmarks.speed.stock import CarefulText, Noop, StockImages, StockText
from benchmarks.speed.subjects import BenchmarkError, Job, Subject, Task

BASELINES: dict[str, type[Subject]] = {
    kind.name: kind for kind in (StockText, CarefulText, StockImages, LitServe, MLServer, Noop)
}
OURS = "marsmith"
# Its default precision, and the fastest.
BOTH = (OURS, f"{OURS}:int8")
EVERYBODY = (*BOTH, *sorted(BASELINES), in_process.NAME)
# Enough for a regression: Marsmith, and on each task something to measure it by, which B5 is on every machine.
QUICK = (*BOTH, "B1", "B2", in_process.NAME)


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment of a baseline's own: what it imports, and what pip installs for that."""

    modules: tuple[str, ...]
    requirements: tuple[str, ...]


# The stock vision handler imports torchvision and captum, which nothing of Marsmith needs; the other two are servers.
ENVIRONMENTS = {
    "B2": Environment(
        ("ts", "torchvision", "captum", "transformers"),
        ("torch==2.14.1", "torchvision==0.29.1", "captum", "torchserve==0.12.0", "transformers==5.24.0", "pyyaml"),
    ),
    "B3": Environment(("litserve", "transformers"), ("torch==2.13.0", "litserve", "transformers==5.24.0", "pillow")),
    # Nothing newer works: its runtime imports what later transformers and torch dropped, and its workers need an event
    # loop that later uvloop does not make.
    "B4": Environment(
        ("mlserver", "mlserver_huggingface"),
        (
            *("mlserver==1.7.1", "mlserver-huggingface==1.7.1", "torch==2.8.0"),
            *("transformers<4.42", "optimum<1.22", "numpy<2", "uvloop<0.22"),
        ),
    ),
}


def check_names(names: list[str]) -> None:
    """Raise BenchmarkError for a name that nobody has."""
    for name in names:
        if name not in EVERYBODY and not name.startswith(f"{OURS}:"):
            raise BenchmarkError(f"There is no subject {name}: choose from {', '.join(EVERYBODY)}, {OURS}:PRECISION.")


def servers(names: list[str], task: Task) -> list[str]:
    """Those of `names` that are servers of `task`, in their order."""
    kinds = {name: BASELINES.get(name, Marsmith) for name in names if name != in_process.NAME}
    return [name for name, kind in kinds.items() if task in kind.tasks]


def subject(name: str, job: Job, pythons: Mapping[str, Path]) -> Subject:
    """The subject of that name. Raises BenchmarkError, which says what is not installed."""
    kind, _, precision = name.partition(":")
    if kind == OURS:
        return Marsmith(job, precision=precision)
    if (environment := ENVIRONMENTS.get(name)) is not None:
        python = pythons.get(name)
        if python is None or not python.is_file():
            raise BenchmarkError(
                f"{name} needs a Python with {', '.join(environment.requirements)}: name one with "
                f"--python {name}=PATH, or let --environments DIR make it."
            )
        _check_imports(name, python, environment.modules)
        return BASELINES[name](job, python)
    return BASELINES[name](job)


def _check_imports(name: str, python: Path, modules: tuple[str, ...]) -> None:
    code = "import importlib.util, sys; print(*[m for m in sys.argv[1:] if importlib.util.find_spec(m) is None])"
    result = subprocess.run([str(python), "-c", code, *modules], capture_output=True, text=True, check=True)  # noqa: S603
    if missing := result.stdout.strip():
        raise BenchmarkError(f"{name} cannot run in {python}: {missing} not installed there.")
