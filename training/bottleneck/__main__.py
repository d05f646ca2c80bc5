"""Where the time of training goes: report on a timed run, or see what too many loader workers do to this machine."""

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from training.bottleneck import lesson as lessons
from training.bottleneck import report as reports
from training.bottleneck.plot import plot_steps, plot_workers, save_plot
from training.bottleneck.records import read_run, write_json
from training.command import run
from training.errors import TrainingError
from training.report.machine import hardware, load_average

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
DEFAULT = lessons.Job()


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", exists=True, file_okay=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write the stacked plot of the steps to this PNG file.")] = None,
) -> None:
    """Say where the time of a run's steps went, and what to change."""
    found_run = read_run(folder)
    found = reports.summarise(found_run)
    if plot:
        save_plot(plot_steps(found_run.steps), plot)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    else:
        reports.show(found, Console())


@app.command()
def lesson(
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the results to this JSON file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the plot to this PNG file.")] = None,
    runs: Annotated[Path | None, typer.Option(help="Keep the timed runs in this folder, for report.")] = None,
    workers: Annotated[str, typer.Option(help="Numbers of loader workers.")] = ",".join(map(str, DEFAULT.workers)),
    rounds: Annotated[int, typer.Option(help="Runs of each number.")] = DEFAULT.rounds,
    steps: Annotated[int, typer.Option(help="Steps of a run.")] = DEFAULT.steps,
    batch: Annotated[int, typer.Option(help="Photos of a step.")] = DEFAULT.batch,
    side: Annotated[int, typer.Option(help="Side of the network's input in pixels.")] = DEFAULT.side,
    photo: Annotated[int, typer.Option(help="Side of the JPEG photos in pixels.")] = DEFAULT.photo,
    layers: Annotated[int, typer.Option(help="Layers of the network.")] = DEFAULT.layers,
    threads: Annotated[int | None, typer.Option(help="Threads of the training process; PyTorch's choice.")] = None,
) -> None:
    """Train the same small network with more and more loader workers on this machine's cores."""
    if threads is not None:
        torch.set_num_threads(threads)
    job = lessons.Job(_numbers(workers), rounds, steps, batch, side, photo, layers)
    job.check()
    # The very thing that is to be shown.
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    machine, load = hardware(), load_average()
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=job.rounds * len(job.workers), completed=-1)
        found = lessons.lesson(job, lambda what: bar.update(task, description=what, advance=1), runs=runs)
        bar.update(task, advance=1)
    found = {"machine": machine | {"load_average": {"start": load, "end": load_average()}}, **found}
    if as_json:
        write_json(found, as_json)
    if plot:
        save_plot(plot_workers(found["rows"], found["cores"]), plot)
    Console().print(_lesson_table(found))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise TrainingError(f"{text!r} is no list of numbers: write 0,1,2,4.") from None


def _lesson_table(found: dict[str, Any]) -> Table:
    table = Table(
        title=f"{found['threads']} training threads on {found['cores']} cores", title_justify="left", box=SIMPLE_HEAD
    )
    for title in ("workers", "time of a step", "variation", "of backward", "waiting for data"):
        table.add_column(title, justify="right")
    for row in found["rows"]:
        share = row["phases"]["data"] / row["step_s"]
        figures = (f"{row['ratio']:.2f}x", f"{row['cv']:.0%}", f"{row['backward_cv']:.0%}", f"{share:.0%}")
        table.add_row(str(row["workers"]), *figures)
    return table


if __name__ == "__main__":
    run(app)
