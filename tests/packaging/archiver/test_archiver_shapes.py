"""What users of torch-model-archiver write is packed on a machine without their packages; true faults are refused."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import Result

from marsmith.cli.tables import card
from marsmith.errors import ArchiveError, LintError
from marsmith.inspection import inspect
from marsmith.lint import lint_archive
from marsmith.lint.findings import Finding
from tests.packaging.archiver.faults import FAULTS
from tests.packaging.archiver.packing import manifest, pack, refused, run_command, write
from tests.packaging.archiver.shape import BODY, Fault, Shape
from tests.packaging.archiver.shapes import SHAPES
from tests.packaging.lint.trees import only


def archived(here: Path, files: Mapping[str, str | bytes], arguments: tuple[str, ...]) -> Result:
    """What the command does in a directory of its own that holds the files."""
    (here / "handler.py").unlink()
    for name, content in files.items():
        write(here / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return run_command("--model-name", "m", "--version", "1.0", *arguments, "--json")


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_may_serve_is_packed(here: Path, shape: Shape) -> None:
    result = archived(here, shape.files, shape.arguments)
    assert result.exit_code == 0, result.exception
    warnings = json.loads(result.stdout)["warnings"]
    for words, code in shape.warned.items():
        assert code in {one["code"] for one in warnings if words in one["message"]}
    assert not [one for one in warnings for words in shape.silent if words in str(one)]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_surely_fails_is_refused(here: Path, fault: Fault) -> None:
    result = archived(here, fault.files, fault.arguments)
    assert isinstance(result.exception, LintError)
    assert fault.code in str(result.exception)
    assert fault.says in str(result.exception)
    assert list(here.glob("m*")) == []


def test_what_is_assumed_stands_in_the_archive_and_counts_for_lint(here: Path) -> None:
    write(here / "handler.py", f"import acmelib{BODY}")
    write(here / "requirements.txt", "numpy==2.0.0\n")
    assert "acmelib" in refused(requirements_file="requirements.txt")
    path = pack(requirements_file="requirements.txt", assume=["acmelib", "a.b-c", "acmelib"]).path
    assert manifest(path)["packing"] == {"assumed": ["a.b-c", "acmelib"]}
    assert inspect(path).assumed == ["a.b-c", "acmelib"]
    assert "M107" not in {one.code for one in lint_archive(path)}


def test_that_lint_was_overruled_stands_in_the_archive_and_lint_still_finds_it(here: Path) -> None:
    write(here / "handler.py", f"import json.absent, helper{BODY}")
    write(here / "helper.py")
    path = pack(lint="warn").path
    assert manifest(path)["packing"] == {"lint": "warn"}
    assert inspect(path).lint_overruled
    write(here / "handler.py", "def handle(:\n")
    assert only(pack(lint="warn", force=True).warnings, "M103").where == "handler.py:1"
    assert only(lint_archive(path), "M103").severity == "error"


def test_an_archive_of_which_nothing_was_assumed_has_the_original_manifest(here: Path) -> None:
    path = pack().path
    assert list(manifest(path)) == ["createdOn", "runtime", "model", "archiverVersion"]
    details = inspect(path)
    assert (details.assumed, details.lint_overruled) == ([], False)
    rows = list(card(details).columns[0].cells)
    assert not {"lint", "assumed on the server"} & set(rows)


@pytest.mark.parametrize("name", ["", "a b", "../a", "-a", "a,b", "a==1.0", "ä"])
def test_only_a_name_can_be_assumed(here: Path, name: str) -> None:
    assert "give the name of one module or package" in refused(assume=[name])


@pytest.mark.parametrize("value", ["x", {"assumed": "x"}, {"assumed": ["../x", 1, None]}, {"lint": ["warn"]}, None])
def test_a_record_that_somebody_else_wrote_is_not_believed(value: object) -> None:
    from marsmith.mar.assumptions import assumed, lint_was_overruled

    assert assumed({"packing": value}) == []
    assert not lint_was_overruled({"packing": value})


def test_lint_is_refuse_or_warn(here: Path) -> None:
    with pytest.raises(ArchiveError, match="use one of refuse, warn"):
        pack(lint="ignore")


def found(warnings: list[Finding]) -> set[str]:
    return {one.code for one in warnings}


def test_a_packed_file_that_is_too_large_to_be_read_may_bring_anything(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from marsmith.lint import bundles

    write(here / "handler.py", f"import acmelib{BODY}")
    write(here / "requirements.txt", "numpy\n")
    write(here / "weights.zip", "x" * 100)
    files = {"requirements_file": "requirements.txt", "extra_files": "weights.zip"}
    assert "acmelib" in refused(**files)  # it is not a zip file, and holds nothing
    with monkeypatch.context() as patch:
        patch.setattr(bundles, "MAX_BUNDLE_BYTES", 99)
        assert "M111" in found(pack(**files).warnings)
    monkeypatch.setattr(bundles, "MAX_BUNDLES", 0)
    assert "M111" in found(pack(**files, force=True).warnings)
