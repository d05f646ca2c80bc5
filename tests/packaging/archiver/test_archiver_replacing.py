"""What was there before is replaced whole or left alone, whatever happens."""

import os
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import marsmith.lint
from marsmith.archiver import Archived
from marsmith.errors import ArchiveError
from marsmith.lint.findings import Finding
from marsmith.mar.members import MANIFEST
from tests.packaging.archiver.packing import ENDINGS, FORMATS, HANDLER, contents, names, pack, refused, write


@pytest.mark.parametrize("archive_format", FORMATS)
def test_an_export_directory_is_made_when_missing(here: Path, archive_format: str) -> None:
    """torch-model-archiver wants it to be there."""
    assert pack(export_path="new/store", archive_format=archive_format).path.exists()


@pytest.mark.parametrize("archive_format", FORMATS)
def test_an_archive_that_exists_is_replaced_with_force_only(here: Path, archive_format: str) -> None:
    path = pack(archive_format=archive_format).path
    write(here / "handler.py", HANDLER + "# new\n")
    sentence = refused(archive_format=archive_format)
    assert f"{path} exists already" in sentence
    assert "--force" in sentence
    assert contents(path)["handler.py"] == HANDLER.encode()
    assert pack(archive_format=archive_format, force=True).path == path
    assert contents(path)["handler.py"].endswith(b"# new\n")
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    assert {file.name for file in here.iterdir()} == {"handler.py", path.name}


def test_force_replaces_a_model_directory_whole(here: Path) -> None:
    """torch-model-archiver leaves the files of the build before."""
    write(here / "extra/stale.json")
    pack(archive_format="no-archive", extra_files="extra")
    path = pack(archive_format="no-archive", force=True).path
    assert names(path) == {"handler.py"}
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((here / "extra").stat().st_mode)


def test_force_never_replaces_what_is_no_model_directory(here: Path) -> None:
    write(here / "m/thesis.tex", "years of work")
    assert "m is no model directory" in refused(archive_format="no-archive", force=True)
    (here / "m").rename(here / "elsewhere")
    write(here / "elsewhere" / MANIFEST, "{}")
    (here / "m").symlink_to("elsewhere")
    assert "m is no model directory" in refused(archive_format="no-archive", force=True)
    (here / "m").unlink()
    write(here / "m", "a file")
    assert "m is no model directory" in refused(archive_format="no-archive", force=True)
    (here / "m").unlink()
    (here / "m").mkdir()
    assert names(pack(archive_format="no-archive", force=True).path) == {"handler.py"}


@pytest.mark.parametrize("force", [True, False])
def test_a_directory_that_appears_meanwhile_is_not_replaced(
    here: Path, force: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(tree: object) -> list[Finding]:
        write(here / "m/thesis.tex", "years of work")
        return []

    monkeypatch.setattr(marsmith.lint, "lint", meanwhile)
    with pytest.raises(ArchiveError, match="m is no model directory" if force else "m exists already"):
        pack(archive_format="no-archive", force=force)
    assert {str(file.relative_to(here)) for file in here.rglob("*")} == {"handler.py", "m", "m/thesis.tex"}


@pytest.mark.parametrize("archive_format", ["default", "tgz"])
def test_force_never_replaces_a_directory_by_a_file(here: Path, archive_format: str) -> None:
    (here / ENDINGS[archive_format]).mkdir()
    assert "cannot be written: Is a directory" in refused(archive_format=archive_format, force=True)


@pytest.mark.parametrize("archive_format", FORMATS)
def test_a_failure_while_writing_leaves_the_old_archive_and_nothing_else(
    here: Path, archive_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytorch/serve#2099: a crash used to leave a truncated archive at the final name."""
    path = pack(archive_format=archive_format).path
    before = contents(path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    sentence = refused(archive_format=archive_format, force=True)
    assert "cannot be written: No space left on device" in sentence
    assert contents(path) == before


def test_a_swap_that_fails_puts_the_old_directory_back(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pack(archive_format="no-archive").path
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(KeyboardInterrupt):
        pack(archive_format="no-archive", force=True)
    assert names(path) == {"handler.py"}
    assert {file.name for file in here.iterdir()} == {"handler.py", "m"}


@pytest.mark.parametrize("archive_format", FORMATS)
def test_a_temporary_directory_of_the_models_name_survives(here: Path, archive_format: str) -> None:
    """pytorch/serve#1532: torch-model-archiver removes it without asking."""
    precious = write(Path(tempfile.gettempdir()) / "m/precious.txt", "mine")
    pack(archive_format=archive_format)
    assert precious.read_text() == "mine"
    assert list(precious.parent.iterdir()) == [precious]
    assert list(precious.parent.parent.iterdir()) == [precious.parent]


@pytest.mark.parametrize("archive_format", FORMATS)
def test_builds_of_one_name_at_one_time_do_not_disturb_each_other(here: Path, archive_format: str) -> None:
    """pytorch/serve#1532: they used to share one directory."""
    write(here / "model.pt", "0123456789" * 100_000)

    def build(_: int) -> Archived:
        return pack(serialized_file="model.pt", archive_format=archive_format, force=True)

    with ThreadPoolExecutor(4) as pool:
        (path, *others) = {archived.path for archived in pool.map(build, range(12))}
    assert others == []
    assert names(path) == {"handler.py", "model.pt"}
    assert contents(path)["model.pt"] == (here / "model.pt").read_bytes()
    assert {file.name for file in here.iterdir()} == {"handler.py", "model.pt", path.name}


def test_a_truncated_source_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What shrinks while it is packed is not whole: no archive of it gets a name."""
    write(here / "model.pt", "0" * 99)
    monkeypatch.setattr(os, "fstat", lambda handle: os.stat_result((stat.S_IFREG, 0, 0, 1, 0, 0, 100, 0, 0, 0)))
    assert "cannot be written" in refused(serialized_file="model.pt", archive_format="tgz")
