"""A cost sheet for training: epochs an hour, device hours, speed-up, and the time that more devices would take.

    python -m training.cost --point 1:3.4 --point 4:0.95 --devices 16 --price 2.5
    python -m training.cost measured.json --devices 16
    python -m training.cost --example

`measured.json` holds `{"points": [{"devices": 1, "hours_per_epoch": 3.4}, …]}`, or, instead of the hours of a point,
its `samples_per_s` of all devices together, with `samples_per_epoch` beside `points`.
"""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from training.command import run
from training.errors import TrainingError
from training.scaling import Point, Row, checked, fit, notes, row

# A published distillation before and after it was tuned: hours an epoch, devices in multiples of the first run's.
EXAMPLE = (Point(1, 3.20), Point(16, 0.114))
EXAMPLE_NOTES = (
    "Devices are counted in multiples of the first run's.",
    "3.20 / 0.114 is a speed-up of 28, and 28 / 16 = 1.75 per device hour; the published 29 is a rounding.",
)

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.command(help=__doc__)
def sheet(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Measured points.")] = None,
    point: Annotated[list[str] | None, typer.Option(help="DEVICES:HOURS of an epoch; may be repeated.")] = None,
    devices: Annotated[list[int] | None, typer.Option(help="Predict for so many devices; may be repeated.")] = None,
    price: Annotated[float | None, typer.Option(help="Price of a device hour: adds the cost of an epoch.")] = None,
    example: Annotated[bool, typer.Option(help="Work through a published example.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Print the sheet."""
    points = [*(read_points(file) if file else []), *map(parse_point, point or []), *(EXAMPLE if example else ())]
    found = reckon(points, devices or [], price)
    if example:
        found["notes"] = [*EXAMPLE_NOTES, *found["notes"]]
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    else:
        show(found, Console())


def reckon(points: list[Point], devices: list[int], price: float | None = None) -> dict[str, Any]:
    """Return measured rows, predicted rows, the fit and notes; raises TrainingError for what makes no sense."""
    ordered = checked(points)
    if price is not None and not (math.isfinite(price) and price >= 0):
        raise TrainingError(f"The price is {price}: it must be a number, 0 or more.")
    for count in devices:
        if count < 1:
            raise TrainingError(f"Nothing can be predicted for {count} devices: ask for 1 or more.")
    law, base = fit(ordered), ordered[0]
    return {
        "measured": [asdict(row(point, base, price)) for point in ordered],
        "predicted": [asdict(row(Point(n, law.hours(n)), base, price)) for n in sorted(set(devices))],
        "ideal": len(ordered) == 1,
        "fit": None if len(ordered) == 1 else {"serial_share": law.serial_share, **asdict(law)},
        "notes": notes(ordered, law),
    }


def parse_point(text: str) -> Point:
    """Read DEVICES:HOURS; raises TrainingError."""
    devices, _, hours = text.partition(":")
    try:
        return Point(int(devices), float(hours))
    except ValueError:
        raise TrainingError(f"{text!r} is no point: write DEVICES:HOURS, as in 4:0.95.") from None


def read_points(file: Path) -> list[Point]:
    """Read measured points; raises TrainingError that names the file."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return [_point(entry, content) for entry in content["points"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise TrainingError(
            f"{file.name} cannot be read: it must be JSON such as "
            '{"points": [{"devices": 1, "hours_per_epoch": 3.4}]}, or samples_per_s in each point and '
            "samples_per_epoch beside them."
        ) from None


def show(found: dict[str, Any], console: Console) -> None:
    """Print a sheet as tables and sentences."""
    console.print(_table("Measured", found["measured"]))
    if found["predicted"]:
        console.print(_table("If scaling were ideal" if found["ideal"] else "Predicted", found["predicted"]))
    for note in found["notes"]:
        console.print(note, highlight=False)


def _point(entry: dict[str, Any], content: dict[str, Any]) -> Point:
    if not isinstance(entry["devices"], int):
        raise TypeError
    if "hours_per_epoch" in entry:
        return Point(entry["devices"], entry["hours_per_epoch"])
    return Point.of_rate(entry["devices"], entry["samples_per_s"], content["samples_per_epoch"])


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    titles = ["devices", "h/epoch", "epochs/h", "device h/epoch", "speed-up", "efficiency"]
    priced = rows[0]["cost_per_epoch"] is not None
    for column in [*titles, *(["cost"] if priced else [])]:
        table.add_column(column, justify="right")
    for line in (Row(**entry) for entry in rows):
        figures = (line.hours_per_epoch, line.epochs_per_hour, line.device_hours_per_epoch)
        cells = [str(line.devices), *(f"{figure:.3g}" for figure in figures)]
        cells += [f"{line.speed_up:.2f}x", f"{line.efficiency:.0%}"]
        table.add_row(*cells, *([f"{line.cost_per_epoch:.2f}"] if priced else []))
    return table


if __name__ == "__main__":
    run(app)
