"""The command `marsmith archive`: every flag of torch-model-archiver, and what it prints."""

import argparse
import json
import typing
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import Result

import marsmith.lint
from marsmith.cli.archiver import OWN_OPTIONS
from marsmith.cli.archiver import archive as command
from marsmith.errors import ArchiveError, LintError
from marsmith.lint.findings import RULES, Finding, Rule
from tests.packaging.archiver.packing import (
    APP,
    manifest,
    names,
    pack,
    run_command,
    write,
)


def run(*arguments: str) -> Result:
    return run_command(*arguments, "--model-name", "m", "--handler", "handler.py")


def test_the_command_takes_every_flag_of_torch_model_archiver(monkeypatch: pytest.MonkeyPatch) -> None:
    from model_archiver.arg_parser import ArgParser

    class Captured(Exception):
        pass

    theirs: dict[str, argparse.Action] = {}

    def capture(parser: argparse.ArgumentParser) -> None:
        theirs.update({spelling: action for action in parser._actions for spelling in action.option_strings})
        raise Captured

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", capture)
    with pytest.raises(Captured):
        ArgParser.export_model_args_parser()
    ours: dict[str, Any] = {one: option for option in typer.main.get_command(APP).params for one in option.opts}
    assert set(ours) - {*OWN_OPTIONS} == set(theirs) - {"-h", "--help"}
    hints = typing.get_type_hints(command)
    for spelling in set(ours) - {*OWN_OPTIONS}:
        assert ours[spelling].required == theirs[spelling].required
        choices = {one for one in typing.get_args(hints[theirs[spelling].dest]) if isinstance(one, str)}
        assert choices == set(theirs[spelling].choices or ())
        if spelling != "--export-path":
            assert (ours[spelling].default or None) == (theirs[spelling].default or None)
    assert ours["--export-path"].default == "."
    assert Path(theirs["--export-path"].default).is_absolute()


def test_every_flag_reaches_the_archive(here: Path) -> None:
    write(here / "model.pt")
    write(here / "model.py")
    write(here / "extra/a.txt")
    write(here / "requirements.txt", "numpy==2.0\n")
    write(here / "model-config.yaml", "minWorkers: 1\nmaxWorkers: 1\n")
    arguments = [
        "--serialized-file",
        "model.pt",
        "--model-file=model.py",
        "--extra-files",
        "extra",
        "--runtime=python3",
    ]
    arguments += ["--export-path", "store", "--archive-format", "tgz", "-v", "2.0", "-r", "requirements.txt"]
    result = run(*arguments, "-c", "model-config.yaml", "-f", "--json")
    assert result.exit_code == 0, result.output
    path = Path("store/m.tar.gz")
    printed = json.loads(result.stdout)
    assert printed == {"path": str(path), "size": path.stat().st_size, "members": 7, "warnings": printed["warnings"]}
    found = manifest(path)
    assert found["runtime"] == "python3"
    assert found["model"] == {
        "modelName": "m",
        "serializedFile": "model.pt",
        "handler": "handler.py",
        "modelFile": "model.py",
        "modelVersion": "2.0",
        "requirementsFile": "requirements.txt",
        "configFile": "model-config.yaml",
    }
    assert "a.txt" in names(path)


def test_the_command_says_what_it_wrote_and_warns_on_standard_error(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RULES, "T000", Rule("warning", "a test's"))
    finding = Finding("T000", "handler.py", "It hums [softly].", "Oil it.")
    monkeypatch.setattr(marsmith.lint, "lint", lambda tree: [finding])
    result = run("--version", "1.0")
    assert result.exit_code == 0
    assert result.stdout == f"wrote m.mar ({Path('m.mar').stat().st_size} B, 3 members)\n"
    assert result.stderr == "warning: T000 handler.py: It hums [softly]. Oil it.\n"


def test_an_error_of_lint_is_refused_and_nothing_is_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "T001", Rule("error", "a test's"))
    finding = Finding("T001", "handler.py", "It is broken.", "Repair it.")
    monkeypatch.setattr(marsmith.lint, "lint", lambda tree: [finding])
    with pytest.raises(
        LintError, match=r"m\.mar would not serve as it should\. T001 handler\.py: It is broken\. Repair"
    ):
        pack()
    assert [file.name for file in here.iterdir()] == ["handler.py"]


def test_the_command_refuses_with_a_marsmith_error(here: Path) -> None:
    result = run("--version", "1.0", "--extra-files", "nowhere")
    assert isinstance(result.exception, ArchiveError)
    assert result.stdout == ""
