"""Files that appear whole: their permissions, and what else in the process sees meanwhile."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from marsmith.ground.files import atomic


@pytest.fixture(params=[0o022, 0o077, 0o000, 0o027])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield int(request.param)
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path, umask: int) -> None:
    with atomic(tmp_path / "file") as stream:
        stream.write(b"whole")
    assert (mode(tmp_path / "file"), (tmp_path / "file").read_bytes()) == (0o666 & ~umask, b"whole")


def test_a_mode_that_is_asked_for_is_had_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    with atomic(tmp_path / "file", 0o640) as stream:
        assert mode(Path(stream.name)) & 0o077 == 0
    assert mode(tmp_path / "file") == 0o640


def test_the_umask_is_never_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread would make its files with it."""
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask was changed"))
    with atomic(tmp_path / "file") as stream:
        stream.write(b"")
    with atomic(tmp_path / "file", 0o600) as stream:
        stream.write(b"")


def test_a_name_as_long_as_can_be_is_written(tmp_path: Path) -> None:
    name = "é" * 125
    with atomic(tmp_path / name) as stream:
        stream.write(b"1")
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_nothing_is_left_of_a_file_that_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with atomic(tmp_path / "file") as stream:
            stream.write(b"half")
            raise ValueError("stop")

    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(ValueError, match="stop"):
        fail()
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {"file": b"old"}
