"""Marsmith beside others, with the same checkpoints and in one run.

    python -m benchmarks [--quick] [--only sentiment|food] [--subjects marsmith,B1,…] [--compare OLD.json]

Exit code 1: answers were wrong, or something was lost since OLD.json.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.speed import results as stored
from benchmarks.speed.compare import compare
from benchmarks.speed.environments import environments
from benchmarks.speed.measure import measure
from benchmarks.speed.plots import plots
from benchmarks.speed.report import conditions, markdown, tables, wrong
from benchmarks.speed.roster import EVERYBODY, QUICK, check_names
from benchmarks.speed.settings import FULL, TINY
from benchmarks.speed.settings import QUICK as QUICK_SETTINGS
from benchmarks.speed.subjects import BenchmarkError, Task
from benchmarks.speed.targets import stored as targets
from marsmith.errors import MarsmithError

TASKS: tuple[Task, ...] = ("sentiment", "food")
# Settings that the command line may change.
ASKED = ("rounds", "seconds", "warm_up_s", "open_seconds", "loads", "starts")
TABLE_WIDTH = 160
# The exit code of who was ended by SIGTERM.
TERMINATED = 128 + signal.SIGTERM

err = Console(stderr=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables, write what was asked for; the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser().parse_args(given)
    try:
        return run(options, stored.placeless(shlex.join(["python", "-m", "benchmarks", *given])))
    except (BenchmarkError, MarsmithError, OSError, ValueError) as error:
        err.print(f"{type(error).__name__}: {error}", style="red", markup=False)
        return 1


def run(options: argparse.Namespace, command: str) -> int:
    """Everything after the command line was read. Raises BenchmarkError."""
    old = stored.load(options.compare) if options.compare else None
    names = options.subjects or list(QUICK if options.quick else EVERYBODY)
    check_names(names)
    pythons = environments(options.environments, names, progress) if options.environments else {}
    pythons |= {name: Path(path) for name, path in options.python}
    settings = TINY if options.tiny else QUICK_SETTINGS if options.quick else FULL
    asked = {name: value for name in ASKED if (value := getattr(options, name)) is not None}
    settings = replace(settings, **asked)
    tasks = [options.only] if options.only else TASKS
    with tempfile.TemporaryDirectory(prefix="marsmith-benchmark-") as scratch:
        found = measure(tasks, names, settings, options.work or Path(scratch), pythons, progress)
    found["command"] = command
    found["targets"] = targets(found)
    if options.json:
        stored.save(found, options.json)
    if options.markdown:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(markdown(found), encoding="utf-8")
    if options.plots:
        plots(found, options.plots)
    return show(found, old)


def show(found: stored.Results, old: stored.Results | None) -> int:
    """Print tables, conditions, faults and losses; 1 where there are faults or losses."""
    out = Console(width=TABLE_WIDTH)
    for table in tables(found):
        out.print(table)
    for line in conditions(found):
        out.print(line, markup=False, highlight=False)
    faults = wrong(found)
    changes = compare(old, found) if old else []
    for fault in faults:
        err.print(f"Wrong: {fault}", style="red", markup=False)
    for change in changes:
        err.print(f"{'LOST ' if change.lost else ''}{change}", style="red" if change.lost else "", markup=False)
    return int(bool(faults) or any(change.lost for change in changes))


def progress(step: str) -> None:
    """Say what goes on."""
    err.print(step, style="dim", markup=False, highlight=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer subjects and rounds, under five minutes")
    parser.add_argument("--tiny", action="store_true", help="tiny networks: that everything runs, not how fast")
    parser.add_argument("--only", choices=TASKS, help="one of the two tasks")
    parser.add_argument(
        "--subjects", type=lambda text: text.split(","), help=f"of {', '.join(EVERYBODY)}, marsmith:PRECISION"
    )
    parser.add_argument("--rounds", type=int, help=f"rounds of every closed loop (default: {FULL.rounds})")
    parser.add_argument("--seconds", type=float, help=f"of each round (default: {FULL.seconds:g})")
    parser.add_argument("--warm-up-s", type=float, help=f"before each round (default: {FULL.warm_up_s:g})")
    parser.add_argument("--starts", type=int, help=f"of each server alone (default: {FULL.starts})")
    parser.add_argument("--loads", type=_loads, help="of the open loops, as shares of the peak: 0.5,0.8")
    parser.add_argument("--open-seconds", type=float, help=f"of each open loop (default: {FULL.open_seconds:g})")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file")
    parser.add_argument("--plots", type=Path, help="write plots to this directory (needs matplotlib)")
    parser.add_argument(
        "--compare", type=Path, help="results of an earlier run: flag what got worse by more than 15 %%"
    )
    parser.add_argument("--environments", type=Path, help="make and keep the baselines' own environments here")
    parser.add_argument(
        "--python", type=_named, action="append", default=[], help="NAME=PATH: the Python of a baseline, as in B2=…"
    )
    parser.add_argument("--work", type=Path, help="keep checkpoints, archives and logs here (default: nowhere)")
    return parser


def _loads(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(",") if part)


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PATH")
    return name, path


if __name__ == "__main__":
    # Servers are stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    sys.exit(main())
