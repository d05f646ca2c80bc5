"""Send hostile requests, and good ones between them, to a real TorchServe worker.

    python -m benchmarks.hostile --requests 100000 [--model-store DIR] [--seed N] [--json FILE] [--plot FILE]

The models share the requests evenly, in batches of 1 to 16, and run at once. Every answer must be strict JSON
of the right status and shape; a good request must get the answer that it gets alone; no worker may die or hang, and
nothing that was sent may stand in its log. The exit code is 1 where one of these fails. A failure is seen again with
its seed, model and batch: `--seed N --model sentiment --only-batch B`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.hostile.drive import WATCHDOG_S, Drive, Failure, Tally
from benchmarks.hostile.generator import Generator
from benchmarks.hostile.report import PlotError, plot, require_matplotlib, summary, table
from marsmith.errors import MarsmithError

TASKS = ("sentiment", "food")
MODELS = Path(__file__).parents[2] / "models"
TABLE_WIDTH = 100

err = Console(stderr=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print a table, write what is asked for; the exit code."""
    options = _options(arguments)
    try:
        if options.plot:
            require_matplotlib()
        with tempfile.TemporaryDirectory(prefix="marsmith-hostile-") as scratch:
            store = options.model_store or _built(options.model, Path(scratch))
            tallies = run(store, options)
    except (MarsmithError, PlotError) as error:
        err.print(str(error), markup=False)
        return 1
    Console(width=TABLE_WIDTH).print(table(tallies))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(summary(tallies), indent=1) + "\n", encoding="utf-8")
    if options.plot:
        plot(tallies, options.plot)
    return 1 if any(tally.failures for tally in tallies) else 0


def run(store: Path, options: argparse.Namespace) -> list[Tally]:
    """All models at once, each in a worker of its own that has its share of the cores."""
    # Whoever starts several workers on one machine says so.
    environ = {"MARSMITH_WORKERS": str(len(options.model))}
    requests = options.requests // len(options.model)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err) as progress, ThreadPoolExecutor(len(options.model)) as pool:
        running = []
        for task in options.model:
            tell = partial(_tell, progress.console, task)
            drive = Drive(store / f"{task}.mar", Generator(task, options.seed), environ, options.watchdog_s, tell)
            bar = progress.add_task(task, total=requests)
            running.append(
                pool.submit(drive.run, requests, partial(progress.advance, bar), options.only_batch, options.limit_s)
            )
        return [one.result() for one in running]


def _tell(console: Console, task: str, failure: Failure) -> None:
    console.print(f"{task}: {failure}", markup=False, highlight=False)


def _built(tasks: Sequence[str], store: Path) -> Path:
    from marsmith.builder import build

    for task in tasks:
        build(MODELS / task / "recipe.toml", store)
    return store


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000, help="requests, shared evenly by the models")
    parser.add_argument("--model", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--model-store", type=Path, help="where NAME.mar lies; else the starters are built")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only-batch", type=int, help="send this batch alone, to see a failure again")
    parser.add_argument("--limit-s", type=float, default=math.inf, help="end after so many seconds, as far as it came")
    parser.add_argument("--watchdog-s", type=float, default=WATCHDOG_S, help="seconds that a batch may take")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--plot", type=Path, help="write the curve of memory to this PNG")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
