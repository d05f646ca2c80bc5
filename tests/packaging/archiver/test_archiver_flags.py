"""`marsmith archive` reads a command line as torch-model-archiver's argparse does: the same values, or a refusal."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest
from model_archiver.arg_parser import ArgParser

import marsmith.archiver
from marsmith.archiver import Archived
from tests.packaging.archiver.packing import run_command

NEEDED = ("--model-name", "m", "--handler", "h.py", "--version", "1.0")
# Both take these, and must read the same values.
TAKEN = [
    NEEDED,
    ("--model-name=m", "--handler=h.py", "--version=1.0"),
    ("--model-n", "m", "--ha", "h.py", "--vers", "1.0"),
    ("--model-na=m", "--hand=h.py", "--ver=1.0", "--f"),
    (*NEEDED, "--s", "w.pt", "--model-f", "net.py", "--ext", "a,b", "--req", "r.txt", "--c", "c.yaml"),
    (*NEEDED, "--ru", "python3", "--exp", "store", "--a", "zip-store", "--forc"),
    (*NEEDED, "-f", "-r", "r.txt", "-c", "c.yaml"),
    ("--model-name", "m", "--handler", "h.py", "-v1.0", "-rr.txt", "-cc.yaml"),
    ("--model-name", "m", "--handler", "h.py", "-v=1.0", "-r=r.txt"),
    ("--model-name", "m", "--handler", "h.py", "-fv", "1.0"),
    ("--model-name", "m", "--handler", "h.py", "-fv1.0"),
    (*NEEDED, "--version", "2.0", "--vers=3.0"),
    (*NEEDED, "--extra-files", "a", "--extra-files", "b"),
    (*NEEDED, "--extra-files", ""),
    (*NEEDED, "--extra-files="),
    (*NEEDED, "--serialized-file=", "--requirements-file", ""),
    (*NEEDED, "--extra-files", "a, b"),
    (*NEEDED, "--extra-files=a=b"),
    (*NEEDED, "--export-path", "- with a space"),
    (*NEEDED, "--version", "-1"),
    (*NEEDED, "--version", "-1.5"),
    (*NEEDED, "--version=-rc"),
    (*NEEDED, "--export-path", "-"),
    (*NEEDED, "--force", "--force"),
]
# Both refuse these.
REFUSED = [
    (),
    NEEDED[:4],
    (*NEEDED, "--model", "x"),
    (*NEEDED, "--ex", "x"),
    (*NEEDED, "--r", "x"),
    (*NEEDED, "--h"),
    (*NEEDED, "--nothing", "x"),
    (*NEEDED, "--force=yes"),
    (*NEEDED, "--extra-files"),
    (*NEEDED, "--extra-files", "--force"),
    (*NEEDED, "--extra-files", "--forc"),
    (*NEEDED, "--version", "-rc"),
    (*NEEDED, "--archive-format", "zip"),
    (*NEEDED, "--runtime", ""),
    (*NEEDED, "more"),
    (*NEEDED, "--", "more"),
]


def theirs(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any] | None:
    monkeypatch.setattr(sys, "argv", ["torch-model-archiver", *arguments])
    try:
        return dataclasses.asdict(ArgParser.export_model_args_parser())
    except SystemExit:
        return None


def ours(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any] | None:
    taken: dict[str, Any] = {}

    def capture(**flags: Any) -> Archived:
        taken.update(flags)
        return Archived(Path("m.mar"), 0, 0, [])

    monkeypatch.setattr(marsmith.archiver, "archive", capture)
    result = run_command(*arguments)
    assert result.exit_code in (0, 2), result.output
    return taken or None


@pytest.mark.parametrize("arguments", TAKEN, ids=" ".join)
def test_both_read_the_same_values(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = theirs(arguments, monkeypatch)
    assert expected is not None
    found = ours(arguments, monkeypatch)
    assert found is not None
    assert {key: found[key] or None for key in expected if key != "export_path"} == {
        key: value or None for key, value in expected.items() if key != "export_path"
    }
    if "--exp" in " ".join(arguments):
        assert found["export_path"] == expected["export_path"]


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_both_refuse(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    assert theirs(arguments, monkeypatch) is None
    assert ours(arguments, monkeypatch) is None


@pytest.mark.parametrize(
    ("beginning", "meant"),
    [
        ("--model", "--model-file, --model-name"),
        ("--ex", "--export-path, --extra-files"),
        ("--h", "--handler, --help"),
        ("--r", "--requirements-file, --runtime"),
    ],
)
def test_an_ambiguous_beginning_is_refused_with_the_options_that_it_may_be(beginning: str, meant: str) -> None:
    printed = " ".join(run_command(*NEEDED, beginning, "x").output.split())
    assert f"{beginning} may be {meant}: write more of it." in printed


def test_an_option_in_the_place_of_a_value_is_named() -> None:
    printed = run_command(*NEEDED, "--extra-files", "--force").output.replace("│", " ")
    assert "--extra-files needs a value, and --force is an option." in " ".join(printed.split())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--a", "tgz"), {"archive_format": "tgz", "assume": []}),  # as with the original, which has no --assume
        (("--as", "lru", "--assu=mmf"), {"assume": ["lru", "mmf"]}),
        (("--l", "warn"), {"lint": "warn"}),
        ((), {"lint": "refuse", "assume": []}),
    ],
)
def test_options_of_marsmith_never_take_a_beginning_from_the_original(
    arguments: tuple[str, ...], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ours((*NEEDED, *arguments), monkeypatch)
    assert found is not None
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("flag", ["-h", "--help", "--he"])
def test_help_is_shown(flag: str) -> None:
    result = run_command(flag)
    assert result.exit_code == 0
    assert "--model-name" in result.output
