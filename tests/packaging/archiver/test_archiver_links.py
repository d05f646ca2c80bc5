"""Links never lead out of where they were found."""

from pathlib import Path

import pytest

from tests.packaging.archiver.packing import FORMATS, contents, names, pack, refused, write


def test_a_link_that_leaves_its_directory_is_refused(here: Path) -> None:
    """torch-model-archiver packs the content of whatever it leads to."""
    write(here / "secret")
    write(here / "secrets/key")
    write(here / "extra/a.txt")
    for target in ("secret", "secrets", "extra/../secret", "extra-not"):
        link = here / "extra/sub/link"
        link.parent.mkdir(exist_ok=True)
        write(here / "extra-not", "a name that begins like the directory's")
        link.symlink_to(here / target)
        sentence = refused(extra_files="extra")
        assert "extra/sub/link leaves" in sentence
        assert str((here / target).resolve()) in sentence
        link.unlink()


def test_a_link_that_a_glob_finds_may_not_leave_its_directory(here: Path) -> None:
    write(here / "secret")
    (here / "extra").mkdir()
    (here / "extra/a.txt").symlink_to("../secret")
    assert "extra/a.txt leaves" in refused(extra_files="extra/*.txt")


def test_a_link_to_a_file_that_is_named_is_followed(here: Path) -> None:
    """Checkpoints in a hub's cache are links to blobs: who names one means it."""
    write(here / "blobs/8f3a", "weights")
    write(here / "blobs/0001/x.txt", "in a directory")
    (here / "snapshot").mkdir()
    (here / "snapshot/model.pt").symlink_to("../blobs/8f3a")
    (here / "snapshot/extra").symlink_to("../blobs/0001")
    path = pack(serialized_file="snapshot/model.pt", extra_files="snapshot/extra").path
    assert names(path) == {"handler.py", "model.pt", "x.txt"}
    assert contents(path)["model.pt"] == b"weights"
    path = pack(extra_files="snapshot/model.pt", export_path="again").path
    assert contents(path)["model.pt"] == b"weights"


@pytest.mark.parametrize("archive_format", FORMATS)
def test_links_within_a_directory_are_followed(here: Path, archive_format: str) -> None:
    write(here / "extra/real/x.txt", "x")
    (here / "extra/file").symlink_to("real/x.txt")
    (here / "extra/again").symlink_to("real")
    (here / "extra/real/up.txt").symlink_to("../file")
    path = pack(extra_files="extra", archive_format=archive_format).path
    found = contents(path)
    assert names(path) == {"handler.py", "file", *(f"{d}/{f}" for d in ("real", "again") for f in ("x.txt", "up.txt"))}
    assert {found[name] for name in found if name.endswith((".txt", "file"))} == {b"x"}
    if path.is_dir():
        assert not any(file.is_symlink() for file in path.rglob("*"))


@pytest.mark.parametrize(
    ("links", "says"),
    [
        ({"a/self": "."}, "leads back to"),
        ({"a/up": ".."}, "leads back to"),
        ({"a/b": "../c", "c/a": "../a"}, "leads back to"),
        ({"a/x": "x"}, "leads nowhere"),
        ({"a/x": "y", "a/y": "x"}, "leads nowhere"),
        ({"a/x": "missing"}, "leads nowhere"),
        ({"x": "missing"}, "leads nowhere"),
    ],
)
def test_links_that_go_round_or_nowhere_are_refused(here: Path, links: dict[str, str], says: str) -> None:
    for name, target in links.items():
        link = here / "extra" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    sentence = refused(extra_files="extra")
    assert says in sentence
    assert any(f"extra/{name}" in sentence for name in links)
