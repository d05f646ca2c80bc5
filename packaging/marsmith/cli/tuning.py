"""The command that finds out how to serve a recipe on this machine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marsmith.cli.console import AsJson, Port, dump, err, escape, out

if TYPE_CHECKING:
    from marsmith.tune.schedule import Show

INTERRUPTED = 130
SECONDS_A_MINUTE = 60


def tune(
    recipe: Annotated[Path, typer.Argument(help="A recipe.toml, or the directory that holds one.")],
    precisions: Annotated[str, typer.Option(help="Precisions to try, as in fp32,int8; else all.")] = "",
    workers: Annotated[str, typer.Option(help="Numbers of workers; else 1, 2, 4 and so on up to the cores.")] = "",
    threads: Annotated[str, typer.Option(help="Threads of a worker; else its share of the cores.")] = "",
    batch_sizes: Annotated[str, typer.Option(help="Requests in a batch, at most.")] = "1,8,16,32",
    delays: Annotated[str, typer.Option(help="Milliseconds that a batch waits for company.")] = "1,5",
    clients: Annotated[int, typer.Option(help="Clients that ask at once.", min=1, max=1024)] = 32,
    seconds: Annotated[float, typer.Option(help="How long each setting is measured.", min=0.5, max=600)] = 5.0,
    inputs: Annotated[
        Path | None, typer.Option(help="A text file, one text a line, or a directory of images; else golden requests.")
    ] = None,
    port: Port = 8080,
    write: Annotated[bool, typer.Option("--write", help="Write what is recommended into the recipe.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure precisions, workers and batches on this machine, and recommend with which to serve a recipe.

    Ctrl-C shows what was measured so far.
    """
    from marsmith.cli import tune_report
    from marsmith.errors import TuneError
    from marsmith.ground.cores import available_cores
    from marsmith.recipe.recipe import Recipe, recipe_file
    from marsmith.torchserve.configuration import Ports
    from marsmith.tune import edit
    from marsmith.tune.inputs import inputs as inputs_of
    from marsmith.tune.measure import Bench, told
    from marsmith.tune.recommend import recommend
    from marsmith.tune.run import Tuning
    from marsmith.tune.setting import Choices, precisions_of, setting_of, workers_of

    read, cores = Recipe.load(recipe), available_cores()
    choices = Choices(
        cores=cores,
        precisions=precisions_of(read, _names("--precisions", precisions)),
        workers=_numbers("--workers", workers, unset="") or workers_of(cores),
        threads=_numbers("--threads", threads, unset="") or None,
        batch_sizes=_numbers("--batch-sizes", batch_sizes),
        delays_ms=_numbers("--delays", delays),
    )
    asked = inputs_of(read, inputs)
    bench = Bench(read, Ports(port), cores, asked, clients, seconds)
    tuning = Tuning(read, recipe_file(recipe), choices, bench)
    tuning.check()
    if write:
        edit.check_editable(read, tuning.file)
    interrupted = False
    try:
        with _bar() as show:
            schedule = tuning.schedule(show)
            err.print(_outlook(schedule.left_s, asked.what, golden=inputs is None), soft_wrap=True, markup=False)
            tuning.run(schedule)
    except KeyboardInterrupt:
        interrupted = True
    found = recommend(tuning.rows)
    if as_json:
        dump(tune_report.document(tuning, found, asked.what))
    elif tuning.rows:
        tune_report.show(tune_report.table(tuning.rows, found, setting_of(read, cores)), out)
        out.print(tune_report.legend(clients), soft_wrap=True)
        out.print(tune_report.summary(tuning, found), soft_wrap=True)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if found is None:
        failures = sum((Counter(row.failures) for row in tuning.rows), Counter())
        raise TuneError(f"Every setting had failures ({told(failures)}), so none can be recommended.")
    if write:
        edit.write(read, tuning.with_setting(found.row.setting), tuning.file)
        err.print(f"Written into {tuning.file}.", soft_wrap=True, markup=False)


def _outlook(seconds: float, what: str, *, golden: bool) -> str:
    few = ", which may be fewer and shorter than yours: name your own with --inputs" if golden else ""
    minutes = math.ceil(seconds / SECONDS_A_MINUTE)
    return f"About {minutes} min; Ctrl-C shows what was measured until then. What is asked: {what}{few}."


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _names(option: str, text: str) -> tuple[str, ...]:
    names = _words(text)
    if text and not names:
        raise typer.BadParameter("give names, as in fp32,int8", param_hint=option)
    return names


def _numbers(option: str, text: str, unset: str | None = None) -> tuple[int, ...]:
    """The numbers of a list; none where the option was not given, which is its empty default."""
    try:
        numbers = tuple(dict.fromkeys(int(word) for word in _words(text)))
    except ValueError:
        numbers = (0,)
    if (not numbers and text != unset) or min(numbers, default=1) < 1:
        raise typer.BadParameter("give whole numbers from 1 on, as in 1,2,4", param_hint=option)
    return numbers


@contextmanager
def _bar() -> Iterator[Show]:
    """A bar on standard error that shows what is done, and about how long is left."""
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.fields[left]}"), TextColumn("{task.description}"))
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("", total=None, left="")

        def show(what: str, passed_s: float, left_s: float) -> None:
            left = f"{left_s // SECONDS_A_MINUTE:.0f}:{left_s % SECONDS_A_MINUTE:02.0f} left"
            bar.update(task, description=escape(what), completed=passed_s, total=passed_s + left_s, left=left)

        yield show
