"""Unpacked archives of strangers: nothing is followed, nothing endless is read, nothing is shown raw."""

import json
import os
import socket
from pathlib import Path

import pytest

from marsmith.errors import ArchiveError, VerifyError
from marsmith.mar.keys import keygen
from marsmith.mar.members import DIGESTS, SIGNATURE
from marsmith.mar.proof import KEPT
from marsmith.mar.reader import extract_archive
from marsmith.mar.signing import sign
from marsmith.mar.unpacked import verify_unpacked
from tests.packaging.forgery import content, write_sound


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write_sound(tmp_path / "m.mar")
    extract_archive(tmp_path / "m.mar", tmp_path / "tree")
    return tmp_path / "tree"


def refused(tree: Path) -> str:
    with pytest.raises(VerifyError) as caught:
        verify_unpacked(tree)
    return str(caught.value)


def test_what_was_written_is_sound(tree: Path) -> None:
    verify_unpacked(tree)


def test_names_are_shown_escaped(tree: Path) -> None:
    (tree / "\x1b[2J\n.py").write_bytes(b"")
    (tree / os.fsdecode(b"\xff.py")).write_bytes(b"")
    said = refused(tree)
    assert said.isprintable()
    assert r"\x1b[2J\n.py was added" in said


def test_a_pipe_a_socket_and_a_link_in_the_place_of_a_file_are_refused(tree: Path) -> None:
    for name, make in (
        ("m.py", os.mkfifo),
        ("model-config.yaml", lambda path: path.symlink_to("/dev/zero")),
        ("model/empty.weights", lambda path: socket.socket(socket.AF_UNIX).bind(str(path.relative_to(Path.cwd())))),
    ):
        (tree / name).unlink()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tree)
            make(Path.cwd() / name)
        assert f"{name} is not a regular file" in refused(tree)


@pytest.mark.parametrize("name", [DIGESTS, SIGNATURE])
def test_a_pipe_a_link_and_a_directory_in_the_place_of_a_seal_are_refused(
    tree: Path, tmp_path: Path, name: str
) -> None:
    for make in (
        os.mkfifo,
        lambda path: path.symlink_to(tmp_path / "elsewhere"),
        lambda path: path.symlink_to("/dev/zero"),
    ):
        (tree / name).unlink(missing_ok=True)
        make(tree / name)
        assert f"{name} is not a regular file" in refused(tree)


def test_a_linked_directory_is_not_entered(tree: Path, tmp_path: Path) -> None:
    (tree / "handlers").rename(tmp_path / "elsewhere")
    (tree / "handlers").symlink_to(tmp_path / "elsewhere")
    said = refused(tree)
    assert "handlers was added" in said
    assert "handlers/base.py is missing" in said


def test_a_linked_directory_of_seals_is_not_entered(tree: Path, tmp_path: Path) -> None:
    (tree / "MAR-INF").rename(tmp_path / "elsewhere")
    (tree / "MAR-INF").symlink_to(tmp_path / "elsewhere")
    assert f"{DIGESTS} is not a regular file" in refused(tree)


def test_an_added_file_of_a_terabyte_is_not_read(tree: Path) -> None:
    for name in ("huge.bin", "model/model.weights"):
        with (tree / name).open("wb") as stream:
            stream.truncate(1 << 40)
    said = refused(tree)
    assert "huge.bin was added" in said
    assert "the content of model/model.weights was changed" in said


def test_an_added_directory_is_not_entered(tree: Path) -> None:
    deep = tree / "a/b/c"
    deep.mkdir(parents=True)
    (deep / "evil.py").write_bytes(b"")
    assert "a/ was added" in refused(tree)
    assert "evil.py" not in refused(tree)


def test_too_many_files_are_not_all_looked_at(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marsmith.mar.unpacked.MAX_MEMBERS", 20)
    for number in range(30):
        (tree / f"{number}.py").write_bytes(b"")
    assert "more than 20 files and directories" in refused(tree)


def test_more_bytes_than_an_archive_may_have_are_not_read(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marsmith.mar.unpacked.MAX_TOTAL_BYTES", 100)
    assert "more than 100 bytes" in refused(tree)


@pytest.mark.parametrize("name", [DIGESTS, SIGNATURE])
def test_a_seal_over_its_limit_is_refused_and_not_taken_for_missing(tree: Path, name: str) -> None:
    with (tree / name).open("ab") as stream:
        stream.truncate(KEPT[name] + 1)
    said = refused(tree)
    assert f"{name} has {KEPT[name] + 1:,} bytes, more than the {KEPT[name]:,} allowed" in said


def test_a_promised_name_that_leaves_the_directory_is_missing(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_bytes(b"x")
    promised = json.loads((tree / DIGESTS).read_bytes())
    for name in ("../outside.py", str(tmp_path / "outside.py"), "a/" * 2000 + "b"):
        promised["members"][name] = {"size": 1, "sha256": "0" * 64}
    (tree / DIGESTS).write_text(json.dumps(promised))
    assert "outside.py is missing" in refused(tree)


@pytest.mark.parametrize("promise", [None, 3, [], {"size": "3000"}, {"size": 3000, "sha256": 5, "deflated": [1]}])
def test_promises_of_any_kind_are_compared(tree: Path, promise: object) -> None:
    promised = json.loads((tree / DIGESTS).read_bytes())
    promised["members"]["model/model.weights"] = promise
    (tree / DIGESTS).write_text(json.dumps(promised))
    assert "the content of model/model.weights was changed" in refused(tree)


def test_digests_are_as_marsmith_writes_them(tree: Path) -> None:
    (tree / DIGESTS).write_bytes((tree / DIGESTS).read_bytes() + b"\n")
    assert f"{DIGESTS} is not as Marsmith writes it" in refused(tree)


def test_a_signature_is_proven_of_a_tree_as_of_its_archive(tmp_path: Path) -> None:
    write_sound(tmp_path / "m.mar")
    public = keygen(tmp_path / "key.pem")
    sign(tmp_path / "m.mar", tmp_path / "key.pem")
    extract_archive(tmp_path / "m.mar", tmp_path / "tree")
    verify_unpacked(tmp_path / "tree", public)
    with pytest.raises(VerifyError, match="not made with the key"):
        verify_unpacked(tmp_path / "tree", keygen(tmp_path / "other.pem"))
    (tmp_path / "tree" / SIGNATURE).unlink()
    with pytest.raises(VerifyError, match="it is not signed"):
        verify_unpacked(tmp_path / "tree", public)


def test_what_is_no_directory_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "nothing"):
        with pytest.raises(ArchiveError, match="cannot be read"):
            verify_unpacked(path)


def test_every_member_counts(tree: Path) -> None:
    for name in content():
        before = (tree / name).read_bytes()
        (tree / name).write_bytes(bytes(len(before)) if before else b"x")
        assert f"the content of {name} was changed" in refused(tree)
        (tree / name).write_bytes(before)
    verify_unpacked(tree)
