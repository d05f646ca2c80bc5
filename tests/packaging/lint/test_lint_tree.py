"""Archives as lint opens them: what Java's streaming reader would see otherwise, and damage of every kind."""

import contextlib
import io
import stat
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marsmith.errors import ArchiveError
from marsmith.lint import lint_archive
from marsmith.lint.findings import RULES
from marsmith.lint.tree import Tree, archive_tree
from tests.packaging.lint.trees import SOUND, codes, only


def packed(method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as zip_file:
        for name, content in SOUND.items():
            zip_file.writestr(name, content)
    return buffer.getvalue()


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_a_sound_archive_has_no_finding(tmp_path: Path, method: int) -> None:
    assert lint_archive(write(tmp_path / "mine.mar", packed(method))) == []


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_method_that_java_does_not_know_is_found_for_each_member(tmp_path: Path, method: int) -> None:
    findings = lint_archive(write(tmp_path / "mine.mar", packed(method)))
    assert [one.code for one in findings] == ["M411"] * len(SOUND)


def test_a_stored_member_with_its_size_behind_it_is_found(tmp_path: Path) -> None:
    """Java's reader gives up on it; zipfile writes it when the file that it writes to cannot seek."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: object) -> int:
            raise OSError

        def tell(self) -> int:
            raise OSError

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w") as zip_file:
        for name, content in SOUND.items():
            zip_file.writestr(name, content)
    assert codes(lint_archive(write(tmp_path / "mine.mar", pipe.getvalue()))) == ["M411"]


def test_bytes_before_the_first_member_make_an_archive_look_empty(tmp_path: Path) -> None:
    finding = only(lint_archive(write(tmp_path / "mine.mar", b"#!/bin/sh\n" + packed())), "M411")
    assert finding.where == "archive"


def test_a_symbolic_link_in_an_archive_is_found(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("model.pt")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(write(tmp_path / "mine.mar", packed()), "a") as zip_file:
        zip_file.writestr(link, "/etc/hostname")
    assert only(lint_archive(tmp_path / "mine.mar"), "M411").where == "model.pt"


def test_a_name_that_is_not_utf8_or_is_not_marked_as_such_is_found(tmp_path: Path) -> None:
    with zipfile.ZipFile(write(tmp_path / "mine.mar", packed()), "a") as zip_file:
        zip_file.writestr("xy.txt", "")
    data = (tmp_path / "mine.mar").read_bytes()
    assert codes(lint_archive(write(tmp_path / "one.mar", data.replace(b"xy.txt", b"x\xe9.txt")))) == ["M411"]
    assert codes(lint_archive(write(tmp_path / "two.mar", data.replace(b"xy.txt", b"\xc3\xa9.txt")))) == ["M411"]


def test_an_encrypted_member_is_found_and_not_read(tmp_path: Path) -> None:
    data = bytearray(packed())
    data[6] |= 1  # the flags of the first local header
    data[data.index(b"PK\1\2") + 8] |= 1  # and of its record in the central directory
    findings = lint_archive(write(tmp_path / "mine.mar", bytes(data)))
    assert only(findings, "M411").message == ("MAR-INF/MANIFEST.json is encrypted, so TorchServe cannot read it.")
    assert only(findings, "M410").where == "MAR-INF/MANIFEST.json"


def test_a_damaged_member_is_a_finding_and_the_rest_is_still_looked_at(tmp_path: Path) -> None:
    data = packed(zipfile.ZIP_STORED).replace(b"numpy==2.4.6", b"numpy==9.9.9", 1)
    findings = lint_archive(write(tmp_path / "mine.mar", data))
    assert only(findings, "M410").where == "requirements.txt"


def test_what_is_no_zip_file_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError):
        lint_archive(write(tmp_path / "mine.mar", b"not a zip file"))
    with pytest.raises(ArchiveError, match="There is no archive"):
        lint_archive(tmp_path / "absent.mar")


@settings(deadline=None)
@given(data=st.data())
def test_no_damage_crashes_lint(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = bytearray(packed(data.draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))))
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=8)):
        whole[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)) | st.just(len(whole)))
    path = write(tmp_path_factory.mktemp("damaged") / "mine.mar", bytes(whole[:cut]))
    with contextlib.suppress(ArchiveError):
        assert {one.code for one in lint_archive(path)} <= RULES.keys()


def test_a_text_is_read_no_further_than_its_limit_and_a_head_no_further_than_asked() -> None:
    asked: list[int] = []

    def read(name: str, count: int) -> bytes:
        asked.append(count)
        return b"a" * min(count, 1000)

    huge = Tree(["a.json"], {"a.json": 1 << 40}, read)
    assert huge.text("a.json", limit=10) is None
    assert huge.text("a.json", limit=1000) == "a" * 1000
    assert huge.head("a.json", 7) == b"a" * 7
    assert asked == [11, 1001, 7]


def test_lint_never_asks_for_a_whole_member(tmp_path: Path) -> None:
    with archive_tree(write(tmp_path / "mine.mar", packed())) as tree:
        from marsmith.lint import lint

        def bounded(name: str, count: int) -> bytes:
            assert 0 <= count <= (1 << 20) + 1
            return tree.read(name, count)

        assert lint(Tree(tree.names, tree.sizes, bounded, tree.faults, tree.sealed)) == []


def test_a_member_about_to_be_packed_is_read_as_far_as_asked_and_whole_when_nothing_is_asked(tmp_path: Path) -> None:
    sources: dict[PurePosixPath, bytes | Path] = {
        PurePosixPath("a"): b"123",
        PurePosixPath("b"): write(tmp_path / "b", b"4567"),
    }
    tree = Tree.of(sources)
    assert [tree.read(name, count) for name in "ab" for count in (-1, 2)] == [b"123", b"12", b"4567", b"45"]
    assert tree.sizes == {"a": 3, "b": 4}


def test_a_file_that_vanished_before_it_is_packed_is_a_finding(tmp_path: Path) -> None:
    tree = Tree.of({PurePosixPath("gone.bin"): tmp_path / "gone.bin"})
    from marsmith.lint.members import lint_members

    assert codes(lint_members(tree)) == ["M410"]
