"""Runs the recipe's commands in this process."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from training.food.__main__ import app


def call(*arguments: object) -> Result:
    """Run a command; what it raises is in the result."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments: object) -> str:
    """Run a command that must succeed; return its standard output."""
    result = call(*arguments)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def logged(folder: Path, figure: str = "loss") -> list[float]:
    """The values of a figure in a run's log, in order."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line[figure] for line in lines if figure in line]
