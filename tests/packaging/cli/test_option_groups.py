"""A group of options is seen by typer as its single options, and by the command as one value."""

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from marsmith.cli.option_groups import grouped


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option("--wide", help="How wide.")] = 1
    height: Annotated[int | None, typer.Option(help="How high.")] = None


def test_the_fields_are_options_in_the_place_of_the_group() -> None:
    seen: list[tuple[str, Size, bool]] = []
    app = typer.Typer()

    @app.command()
    @grouped
    def draw(name: Annotated[str, typer.Argument()], size: Size, bold: bool = False) -> None:
        """Draw it."""
        seen.append((name, size, bold))

    assert CliRunner().invoke(app, ["box", "--wide", "3", "--bold"]).exit_code == 0
    assert CliRunner().invoke(app, ["box", "--height", "2"]).exit_code == 0
    assert seen == [("box", Size(3), True), ("box", Size(1, 2), False)]
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert "Draw it." in shown
    assert shown.index("--wide") < shown.index("--height") < shown.index("--bold")
