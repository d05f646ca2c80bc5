"""The archive writer: same bytes for same members, whole or not at all, readable by TorchServe's streaming reader."""

import hashlib
import json
import os
import stat
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marsmith.errors import ArchiveError
from marsmith.mar.members import DIGESTS, MANIFEST, Source
from marsmith.mar.reader import read_json
from marsmith.mar.writer import write_archive

NAMES = st.lists(st.from_regex(r"[a-z]{1,6}(/[a-z]{1,6})?\.(py|json|onnx|weights)", fullmatch=True), unique=True)


def member(name: str) -> PurePosixPath:
    return PurePosixPath(name)


def test_insert_order_umask_and_time_zone_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members: dict[PurePosixPath, Source] = {member("b.py"): b"b" * 5000, member("model/a.onnx"): b"a"}
    write_archive(tmp_path / "one.mar", members)
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    previous = os.umask(0o077)
    try:
        write_archive(tmp_path / "elsewhere/two.mar", dict(reversed(members.items())))
    finally:
        os.umask(previous)
    assert (tmp_path / "one.mar").read_bytes() == (tmp_path / "elsewhere/two.mar").read_bytes()


@given(NAMES, st.binary(max_size=300))
def test_digests_name_every_other_member(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], data: bytes
) -> None:
    path = tmp_path_factory.mktemp("archive") / "m.mar"
    write_archive(path, {member(name): data for name in names})
    with zipfile.ZipFile(path) as zip_file:
        digests = json.loads(zip_file.read(DIGESTS))["members"]
        assert set(digests) == set(zip_file.namelist()) - {DIGESTS} == set(names)
    assert all(entry["size"] == len(data) for entry in digests.values())
    assert all(entry["sha256"] == hashlib.sha256(data).hexdigest() for entry in digests.values())
    assert all(("deflated" in entry) == name.endswith((".py", ".json")) for name, entry in digests.items())


def test_weights_are_stored_and_text_is_deflated(tmp_path: Path) -> None:
    """pytorch/serve#2196, pytorch/serve#2830: deflating weights takes minutes and saves 7 %."""
    write_archive(tmp_path / "m.mar", {member("model/model.weights"): b"0" * 9999, member("a.py"): b"#" * 9999})
    with zipfile.ZipFile(tmp_path / "m.mar") as zip_file:
        kinds = {info.filename: info.compress_type for info in zip_file.infolist()}
    assert kinds["model/model.weights"] == zipfile.ZIP_STORED
    assert kinds["a.py"] == zipfile.ZIP_DEFLATED


def test_no_member_has_a_data_descriptor_a_clock_or_a_surprising_mode(tmp_path: Path) -> None:
    write_archive(tmp_path / "m.mar", {member("a.weights"): b"1", member("b.py"): b"2"})
    with zipfile.ZipFile(tmp_path / "m.mar") as zip_file:
        for info in zip_file.infolist():
            assert info.flag_bits & 0x08 == 0  # TorchServe's streaming reader refuses STORED members with one
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
            assert stat.filemode(info.external_attr >> 16) == "-rw-r--r--"


def test_the_file_has_the_mode_that_the_umask_gives(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        write_archive(tmp_path / "m.mar", {member("a.py"): b""})
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "m.mar").stat().st_mode) == 0o640


@pytest.mark.parametrize("name", ["../evil.py", "/etc/passwd", "a/../../b"])
def test_a_name_that_leaves_the_archive_is_refused_and_nothing_stays(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match=r"(leaves the archive|is absolute)"):
        write_archive(tmp_path / "m.mar", {member("ok.py"): b"", member(name): b""})
    assert list(tmp_path.iterdir()) == []


def test_a_second_member_of_one_name_is_refused(tmp_path: Path) -> None:
    """pytorch/serve#1227: the stock archiver lets the second one win."""
    with pytest.raises(ArchiveError, match=r"Two files want to be MAR-INF/digests\.json"):
        write_archive(tmp_path / "m.mar", {member(DIGESTS): b"{}"})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_archive_alone(tmp_path: Path) -> None:
    """pytorch/serve#2099 and pytorch/serve#1012: never a truncated archive, never a leftover."""
    path = tmp_path / "m.mar"
    write_archive(path, {member("a.py"): b"old"})
    before = path.read_bytes()
    with pytest.raises(ArchiveError, match="cannot be read"):
        write_archive(path, {member("a.py"): b"new", member("b.weights"): tmp_path / "missing"})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_output_that_cannot_be_a_directory_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match="cannot be written"):
        write_archive(tmp_path / "file/m.mar", {})


@pytest.mark.parametrize("content", [b"", b"not a zip", None])
def test_what_is_no_archive_is_one_sentence(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "m.mar"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ArchiveError, match=r"m\.mar"):
        read_json(path, MANIFEST)
