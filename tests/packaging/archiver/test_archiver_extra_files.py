"""Extra files: what is taken, what is dropped, and that no member has two sources."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.packaging.archiver.packing import FORMATS, HANDLER, names, pack, refused, write


@pytest.mark.parametrize(
    ("extra_files", "members"),
    [
        ("extra/a.txt", {"a.txt"}),
        ("extra/a.txt,other/b.txt", {"a.txt", "b.txt"}),
        (" extra/a.txt , other/b.txt,", {"a.txt", "b.txt"}),  # torch-model-archiver finds no file ' other/b.txt'
        ("extra", {"a.txt", "b.bin", "sub/c.txt"}),
        ("extra/", {"a.txt", "b.bin", "sub/c.txt"}),
        ("ext*", {"a.txt", "b.bin", "sub/c.txt"}),
        ("extra/*.txt", {"a.txt"}),
        ("extra/*", {"a.txt", "b.bin", "c.txt"}),
        ("extra/[ab].???", {"a.txt", "b.bin"}),
        (["extra/a.txt", "other/x, y.txt"], {"a.txt", "x, y.txt"}),
        ([Path("extra/*.bin"), Path("other")], {"b.bin", "b.txt", "x, y.txt"}),
    ],
)
def test_extra_files_are_files_directories_and_globs(
    here: Path, extra_files: str | Sequence[str | Path], members: set[str]
) -> None:
    for name in ("extra/a.txt", "extra/b.bin", "extra/sub/c.txt", "other/b.txt", "other/x, y.txt"):
        write(here / name, name)
    assert names(pack(extra_files=extra_files).path) == {"handler.py", *members}


def test_caches_hidden_directories_and_archives_are_dropped_and_dot_files_are_kept(here: Path) -> None:
    for name in (".git/config", "__pycache__/a.pyc", "__MACOSX/x", "sub/.cache/x", "sub/__pycache__/y"):
        write(here / "extra" / name)
    for name in ("loose.pyc", ".DS_Store", "sub/.DS_Store", "old.mar", ".flags", "sub/.keep", "pycache"):
        write(here / "extra" / name)
    members = {"handler.py", ".flags", "sub/.keep", "pycache"}
    assert names(pack(extra_files="extra").path) == members
    assert names(pack(extra_files="extra/*", export_path="globbed").path) == {"handler.py", ".keep", "pycache"}


@pytest.mark.parametrize("name", ["extra/loose.pyc", "extra/__pycache__", "extra/.hidden"])
def test_what_is_named_is_packed_whatever_its_kind(here: Path, name: str) -> None:
    for file in ("loose.pyc", "__pycache__/loose.pyc2", ".hidden/loose.txt"):
        write(here / "extra" / file)
    assert any(member.startswith("loose.") for member in names(pack(extra_files=name).path))


@pytest.mark.parametrize("archive_format", FORMATS)
def test_an_archive_is_never_packed_into_the_next(here: Path, archive_format: str) -> None:
    for _ in range(2):
        path = pack(extra_files=".", archive_format=archive_format, force=True).path
        assert names(path) == {"handler.py"}
    for _ in range(2):
        path = pack(extra_files="*", archive_format=archive_format, force=True).path
        assert names(path) == {"handler.py"}


def test_a_file_with_brackets_in_its_name_is_packed(here: Path) -> None:
    """torch-model-archiver takes it for a glob that matches nothing, and says so in a log line only."""
    write(here / "part[1].bin")
    assert names(pack(extra_files="part[1].bin").path) == {"handler.py", "part[1].bin"}
    write(here / "part1.bin")
    sentence = refused(extra_files="part[1].bin", force=True)
    assert "part[1].bin is a file and also a pattern that matches part1.bin" in sentence


def test_two_directories_with_one_file_are_refused(here: Path) -> None:
    """pytorch/serve#1227, pytorch/serve#815, pytorch/serve#1689, pytorch/serve#566: the second one used to win."""
    write(here / "a/config.json", "{}")
    write(here / "b/config.json", "[]")
    sentence = refused(extra_files="a,b")
    assert "a/config.json and b/config.json both want to be config.json" in sentence
    write(here / "both/a/config.json", "{}")
    write(here / "both/b/config.json", "[]")
    assert names(pack(extra_files="both").path) == {"handler.py", "a/config.json", "b/config.json"}


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("handler", "handler.py"),
        ("serialized_file", "model.pt"),
        ("model_file", "model.py"),
        ("requirements_file", "requirements.txt"),
        ("config_file", "model-config.yaml"),
    ],
)
def test_an_extra_file_named_like_another_input_is_refused(here: Path, flag: str, name: str) -> None:
    """pytorch/serve#1227: the archive held the other file's class."""
    write(here / "mine" / name, HANDLER)
    write(here / "extra" / name, HANDLER)
    sentence = refused(**{flag: f"mine/{name}", "extra_files": "extra"})
    assert f"mine/{name} and extra/{name} both want to be {name}" in sentence


def test_two_named_files_of_one_name_are_refused(here: Path) -> None:
    write(here / "a/x.py")
    write(here / "b/x.py")
    assert "b/x.py and a/x.py both want to be x.py" in refused(serialized_file="b/x.py", model_file="a/x.py")


def test_one_file_may_be_named_twice(here: Path) -> None:
    write(here / "requirements.txt", "numpy==2.0\n")
    (here / "also").symlink_to(here)
    path = pack(requirements_file="requirements.txt", extra_files="requirements.txt,handler.py,also/handler.py").path
    assert names(path) == {"handler.py", "requirements.txt"}


def test_directories_of_one_name_are_merged_when_no_file_collides(here: Path) -> None:
    """torch-model-archiver ends with a FileExistsError and leaves its copies behind."""
    write(here / "a/sub/x.txt")
    write(here / "b/sub/y.txt")
    assert names(pack(extra_files="a,b").path) == {"handler.py", "sub/x.txt", "sub/y.txt"}
    write(here / "b/sub/x.txt")
    assert "a/sub/x.txt and b/sub/x.txt both want to be sub/x.txt" in refused(extra_files="a,b", export_path="store")


@pytest.mark.parametrize("extra_files", ["a,b", "b,a"])
def test_a_name_cannot_be_a_file_and_a_directory(here: Path, extra_files: str) -> None:
    write(here / "a/sub")
    write(here / "b/sub/x.txt")
    sentence = refused(extra_files=extra_files)
    assert "a/sub" in sentence
    assert "b/sub/x.txt" in sentence


@pytest.mark.parametrize("name", ["MAR-INF/MANIFEST.json", "MAR-INF/digests.json", "MAR-INF/signature.json", "MAR-INF"])
@pytest.mark.parametrize("archive_format", FORMATS)
def test_the_archivers_own_records_cannot_be_brought(here: Path, archive_format: str, name: str) -> None:
    """torch-model-archiver writes a zip file with two manifests."""
    write(here / "extra" / name, "{}")
    sentence = refused(extra_files="extra", archive_format=archive_format)
    assert f"extra/{name}" in sentence
