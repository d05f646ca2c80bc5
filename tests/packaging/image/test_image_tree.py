"""Layers laid over one another: what is deleted is gone, what is replaced is new, secrets stay where they were."""

from pathlib import Path

import pytest

from marsmith.errors import ImageError
from marsmith.image.archive import read_image
from marsmith.image.extract import extract
from marsmith.image.tree import Tree, read_tree
from tests.packaging.image.images import (
    AARCH64,
    DIRECTORY,
    PRIVATE_KEY,
    Files,
    Member,
    docker_archive,
    elf,
    hard_link,
    link,
    oci_archive,
)


def tree(tmp_path: Path, *layers: Files) -> Tree:
    return read_tree(read_image(oci_archive(tmp_path / "image.tar", *layers)), lambda path: path.endswith(".txt"))


def test_a_whiteout_deletes_what_lies_below_it_and_nothing_beside(tmp_path: Path) -> None:
    lower: Files = {"a": DIRECTORY, "a/b": b"1", "a/b2": b"2", "c/d/e": b"3", "c/d2": b"4"}
    upper: Files = {"a/.wh.b": b"", "c/.wh.d": b""}
    assert set(tree(tmp_path, lower, upper).files) == {"a", "a/b2", "c/d2"}


def test_an_opaque_directory_keeps_only_what_its_own_layer_holds(tmp_path: Path) -> None:
    lower: Files = {"a": DIRECTORY, "a/b": b"1", "a/c/d": b"2", "ab": b"3"}
    upper: Files = {"a/new": b"4", "a": DIRECTORY, "a/.wh..wh..opq": b""}
    assert set(tree(tmp_path, lower, upper).files) == {"a", "ab", "a/new"}


def test_a_whiteout_spares_what_the_same_layer_adds(tmp_path: Path) -> None:
    files = tree(tmp_path, {"a/b": b"1"}, {"a/b": b"22", "a/.wh.b": b""}).files
    assert files["a/b"].size == 2


def test_a_file_in_the_place_of_a_directory_empties_it(tmp_path: Path) -> None:
    files = tree(tmp_path, {"a": DIRECTORY, "a/b": b"1"}, {"a": b"file"}).files
    assert set(files) == {"a"}
    assert files["a"].kind == "file"


def test_a_directory_of_two_layers_holds_the_files_of_both(tmp_path: Path) -> None:
    files = tree(tmp_path, {"a": DIRECTORY, "a/b": b"1"}, {"a": DIRECTORY, "a/c": b"1"}).files
    assert set(files) == {"a", "a/b", "a/c"}


def test_names_are_one_however_they_are_written(tmp_path: Path) -> None:
    assert set(tree(tmp_path, {"./a/b": b"1", "/c": b"2", "d/../e": b"3"}).files) == {"a/b", "c", "e"}


def test_a_hard_link_is_the_file_it_names_and_takes_no_room(tmp_path: Path) -> None:
    found = tree(tmp_path, {"a": Member(elf(), 0o4755)}, {"b": hard_link("a")})
    assert found.files["b"].mode == 0o4755
    assert found.files["b"].machine == AARCH64
    assert found.unpacked == [len(elf()), 0]


def test_content_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    found = tree(tmp_path, {"a.txt": b"old", "b": b"no"}, {"a.txt": b"new"})
    assert found.files["a.txt"].content == b"new"
    assert found.files["b"].content is None


def test_a_secret_that_a_later_layer_deletes_or_covers_still_counts(tmp_path: Path) -> None:
    lower: Files = {"a.pem": PRIVATE_KEY, "b.pem": PRIVATE_KEY, "c.pem": PRIVATE_KEY}
    found = tree(tmp_path, lower, {".wh.a.pem": b"", "b.pem": b"nothing"})
    assert [(one.path, one.layer, one.kind, one.deleted) for one in found.secrets] == [
        ("a.pem", 0, "a private key", True),
        ("b.pem", 0, "a private key", True),
        ("c.pem", 0, "a private key", False),
    ]


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("/bin/python", "usr/bin/python3"),
        ("/usr/bin/python", "usr/bin/python3"),
        ("bin/up", "usr/bin/python3"),
        ("/usr/bin/python3", "usr/bin/python3"),
        ("/bin", "usr/bin"),
        ("/bin/loop", None),
        ("/bin/dangling", None),
        ("/nothing", None),
    ],
)
def test_links_are_followed_inside_the_image(tmp_path: Path, path: str, leads_to: str | None) -> None:
    files: Files = {
        "usr/bin": DIRECTORY,
        "usr/bin/python3": b"",
        "usr/bin/python": link("python3"),
        "usr/bin/up": link("../../../../usr/bin/python"),
        "usr/bin/loop": link("loop"),
        "usr/bin/dangling": link("/gone"),
        "bin": link("usr/bin"),
    }
    found = tree(tmp_path, files).resolve(path)
    assert (found.path if found else None) == leads_to


def test_a_hard_link_to_a_hard_link_has_the_bytes_of_the_file(tmp_path: Path) -> None:
    image = read_image(
        docker_archive(tmp_path / "i.tar", {"a": b"1"}, {"b": hard_link("a"), "c": hard_link("b"), ".wh.a": b""})
    )
    found = read_tree(image, lambda _: False)
    extract(image, {tmp_path / name: found.files[name] for name in "bc"})
    assert [(tmp_path / name).read_bytes() for name in "bc"] == [b"1", b"1"]


def test_a_hard_link_to_nothing_is_no_file(tmp_path: Path) -> None:
    assert tree(tmp_path, {"b": hard_link("gone")}).files["b"].kind == "other"


def test_what_lies_below_a_link_lies_where_the_link_leads(tmp_path: Path) -> None:
    files = tree(tmp_path, {"usr/bin": DIRECTORY, "bin": link("usr/bin")}, {"bin/sh": b"1"}).files
    assert set(files) == {"usr/bin", "bin", "usr/bin/sh"}


def test_two_members_of_one_name_are_the_later_one(tmp_path: Path) -> None:
    image = read_image(docker_archive(tmp_path / "i.tar", {"a": b"1", "./a": b"22"}))
    extract(image, {tmp_path / "a": read_tree(image, lambda _: False).files["a"]})
    assert (tmp_path / "a").read_bytes() == b"22"


def test_a_layer_that_explodes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marsmith.image.archive.LAYER_FREE_BYTES", 1 << 16)
    with pytest.raises(ImageError, match="made to explode"):
        tree(tmp_path, {"zeros": bytes(8 << 20)})


def test_an_image_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marsmith.image.tree.MAX_FILES", 10)
    with pytest.raises(ImageError, match="more than 10 files"):
        tree(tmp_path, {f"{number}": b"" for number in range(11)})


def test_files_that_there_is_no_room_for_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marsmith.image.extract.MAX_TOTAL_BYTES", 5)
    image = read_image(docker_archive(tmp_path / "i.tar", {"a": b"123", "b": b"456"}))
    files = read_tree(image, lambda _: False).files
    extract(image, {tmp_path / "a": files["a"]})
    with pytest.raises(ImageError, match="too large to be looked into"):
        extract(image, {tmp_path / name: files[name] for name in "ab"})
