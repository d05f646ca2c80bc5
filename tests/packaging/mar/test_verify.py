"""Verification: what is sound passes, what is not is found, and nothing dangerous is unpacked to find it."""

import copy
import io
import json
import struct
import zipfile
from pathlib import Path

import pytest

from marsmith.errors import ArchiveError, VerifyError
from marsmith.mar import verify
from marsmith.mar.members import DIGESTS
from tests.packaging.forgery import check, rewritten, spans, unpacked, write_sound


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_sound(tmp_path_factory.mktemp("sound") / "m.mar")


def test_a_sound_archive_passes(sound: bytes, tmp_path: Path) -> None:
    report = check(sound, tmp_path / "m.mar")
    assert (report.ok, report.sealed, report.signature, report.members) == (True, True, "none", 8)


@pytest.mark.parametrize("junk", [b"x", b"PK\5\6" + bytes(18), b"\0" * 70_000])
def test_data_after_the_end_is_found(sound: bytes, tmp_path: Path, junk: bytes) -> None:
    assert not check(sound + junk, tmp_path / "m.mar").ok


def test_data_before_the_beginning_is_found(sound: bytes, tmp_path: Path) -> None:
    """Python's zipfile reads such a file without a word; TorchServe's reader does not."""
    assert not check(b"#!/bin/sh\n" + sound, tmp_path / "m.mar").ok


def test_a_cut_archive_names_the_member_that_it_breaks_off_in(sound: bytes, tmp_path: Path) -> None:
    """pytorch/serve#2099: TorchServe skips it and calls itself healthy."""
    name, begin, end = next(span for span in spans(sound) if span[0] == "model/model.weights")
    report = check(sound[: (begin + end) // 2], tmp_path / "m.mar")
    assert [(problem.kind, problem.member) for problem in report.problems] == [("truncated", name)]


def test_padding_bits_of_a_deflated_member_are_part_of_it(sound: bytes, tmp_path: Path) -> None:
    """The content stays the same whatever they are: only the digest of the deflated bytes sees them."""
    name, _, end = next(span for span in spans(sound) if span[0] == "m.py")
    found = []
    for bit in range(8):
        changed = bytearray(sound)
        changed[end - 1] ^= 1 << bit
        report = check(bytes(changed), tmp_path / "m.mar")
        assert {problem.member for problem in report.problems} == {name}
        found.append(report.problems[0].message)
    assert "the content of m.py was changed" in found


def test_digests_cannot_be_left_out(sound: bytes, tmp_path: Path) -> None:
    files = [(name, data) for name, data in unpacked(sound) if name != DIGESTS]
    (problem,) = check(rewritten(files), tmp_path / "m.mar").problems
    assert (problem.kind, problem.member) == ("missing", DIGESTS)


@pytest.mark.parametrize("digests", [b"", b"[]", b'{"members": 3}', b"[" * 100_000, b"\xff"])
def test_digests_that_are_none_are_a_finding(sound: bytes, tmp_path: Path, digests: bytes) -> None:
    files = [(name, digests if name == DIGESTS else data) for name, data in unpacked(sound)]
    report = check(rewritten(files), tmp_path / "m.mar")
    assert DIGESTS in {problem.member for problem in report.problems}


@pytest.mark.parametrize(
    "name", ["../evil.py", "/etc/cron.d/evil", "a/../../evil", "C:evil", "a\\b", "a//b", "a\nb", "./a"]
)
def test_a_name_that_leaves_the_archive_is_unsafe(tmp_path: Path, name: str) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as zip_file:
        zip_file.writestr(name, "")
    report = check(stream.getvalue(), tmp_path / "m.mar")
    assert [(problem.kind, problem.member) for problem in report.problems] == [("unsafe", name)]


def test_a_file_where_a_directory_is_needed_is_unsafe(tmp_path: Path) -> None:
    report = check(rewritten([("a", b""), ("a/b", b"")]), tmp_path / "m.mar")
    assert [(problem.kind, problem.member) for problem in report.problems] == [("unsafe", "a/b")]


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as zip_file, zip_file.open("bomb.json", "w") as member:
        for _ in range(40):
            member.write(bytes(1 << 20))
    monkeypatch.setattr(verify, "read_members", lambda *_: pytest.fail("it was unpacked"))
    report = check(stream.getvalue(), tmp_path / "m.mar")
    assert [(problem.kind, problem.member) for problem in report.problems] == [("limit", "bomb.json")]


def test_members_that_share_their_bytes_are_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each inflates by little, all of them together without end."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as zip_file:
        zip_file.writestr("kernel.json", bytes(1000))
        first = zip_file.infolist()[0]
        for number in range(100):
            other = copy.copy(first)
            other.filename = other.orig_filename = f"{number}.json"
            zip_file.filelist.append(other)
    monkeypatch.setattr(verify, "read_members", lambda *_: pytest.fail("it was unpacked"))
    report = check(stream.getvalue(), tmp_path / "m.mar")
    assert {problem.kind for problem in report.problems} == {"limit"}
    assert "0.json" in {problem.member for problem in report.problems}


def test_a_member_that_inflates_past_its_size_is_stopped_there(tmp_path: Path) -> None:
    """A bomb that lies about its size in both records."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as zip_file:
        zip_file.writestr("bomb.json", bytes(50 << 20))
    data = stream.getvalue().replace(struct.pack("<I", 50 << 20), struct.pack("<I", 9))
    report = check(data, tmp_path / "m.mar")
    assert [(problem.kind, problem.member) for problem in report.problems] == [("limit", "bomb.json")]


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compression_that_torchserve_cannot_read_is_unsafe(tmp_path: Path, compression: int) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as zip_file:
        zip_file.writestr("a.py", "#" * 100)
    report = check(stream.getvalue(), tmp_path / "m.mar")
    assert [(problem.kind, problem.member) for problem in report.problems] == [("unsafe", "a.py")]


def test_an_archive_by_others_is_judged_by_its_structure(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as zip_file:
        zip_file.writestr("handler.py", "def handle(data, context): ...")
        zip_file.writestr("MAR-INF/MANIFEST.json", json.dumps({"model": {"modelName": "m"}}))
    report = check(stream.getvalue(), tmp_path / "m.mar")
    assert (report.ok, report.sealed) == (True, False)
    assert not check(stream.getvalue()[:-30], tmp_path / "m.mar").ok
    for position in range(0, len(stream.getvalue()), 7):
        check(stream.getvalue()[:position] + b"\xa5" + stream.getvalue()[position + 1 :], tmp_path / "m.mar")


class Pipe(io.BytesIO):
    """A stream that cannot seek, so that zipfile writes descriptors behind the data."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise OSError

    def tell(self) -> int:
        raise OSError


def test_descriptors_are_checked(tmp_path: Path) -> None:
    stream = Pipe()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as zip_file:
        zip_file.writestr("handler.py", "#" * 500)
        zip_file.writestr("other.py", "#" * 500)
    data = stream.getvalue()
    assert check(data, tmp_path / "m.mar").ok
    position = data.index(b"PK\7\x08") + 5
    report = check(data[:position] + b"?" + data[position + 1 :], tmp_path / "m.mar")
    assert ("changed", "handler.py") in [(problem.kind, problem.member) for problem in report.problems]


@pytest.mark.parametrize("data", [b"", b"PK", b"not a zip at all", bytes(1000), b"PK\5\6" + b"\xff" * 18])
def test_what_is_no_archive_is_a_finding(tmp_path: Path, data: bytes) -> None:
    assert not check(data, tmp_path / "m.mar").ok


def test_a_missing_or_unreadable_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"There is no archive .*m\.mar"):
        verify.verify(tmp_path / "m.mar")
    with pytest.raises(ArchiveError, match="cannot be read: Is a directory"):
        verify.verify(tmp_path)


def test_the_error_names_the_first_problems(sound: bytes, tmp_path: Path) -> None:
    files = [(f"evil{number}.py", b"") for number in range(9)]
    with pytest.raises(VerifyError, match=r"evil0\.py was added; .*; and \d+ more"):
        check(rewritten(files + unpacked(sound)), tmp_path / "m.mar").require_ok()
