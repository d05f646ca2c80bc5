"""Archives at the edges: many members, huge ones, full disks, files that cannot be read. Nothing half-written stays."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

import pytest

from marsmith.errors import ArchiveError
from marsmith.mar.members import Source
from marsmith.mar.verify import verify
from marsmith.mar.writer import open_source, write_archive

MANY = 70_000  # more than the 65,535 that a zip file without zip64 can count
HUGE_BYTES = (4 << 30) + 12345  # more than 32 bits can say
MEMORY_BYTES = 100 << 20


def member(name: str) -> PurePosixPath:
    return PurePosixPath(name)


@pytest.mark.slow
def test_seventy_thousand_members(tmp_path: Path) -> None:
    path = tmp_path / "m.mar"
    write_archive(path, {member(f"model/{number:05}.txt"): b"%d" % number for number in range(MANY)})
    report = verify(path)
    assert (report.ok, report.members) == (True, MANY + 1)
    with zipfile.ZipFile(path) as zip_file:
        assert zip_file.read("model/69999.txt") == b"69999"


@pytest.mark.slow
def test_a_member_past_four_gib_in_little_memory(tmp_path: Path) -> None:
    """Java's reader and Python's both read what Marsmith writes with zip64 records; this is Python's."""
    sparse = tmp_path / "huge.weights"
    with sparse.open("wb") as stream:
        stream.truncate(HUGE_BYTES - 4)
        stream.seek(0, os.SEEK_END)
        stream.write(b"tail")
    path = tmp_path / "m.mar"
    code = (
        "import re, sys; from pathlib import Path, PurePosixPath; from marsmith.mar import verify, writer;"
        "status = Path('/proc/self/status');"
        "peak = lambda: 1024 * int(re.search(r'VmHWM:\\s+(\\d+) kB', status.read_text())[1]); before = peak();"
        "members = {PurePosixPath('model/w.weights'): Path(sys.argv[2]), PurePosixPath('z.py'): b''};"
        "writer.write_archive(Path(sys.argv[1]), members);"
        "report = verify.verify(Path(sys.argv[1])); assert report.ok, report.problems; print(peak() - before)"
    )
    command = [sys.executable, "-c", code, str(path), str(sparse)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(result.stdout) < MEMORY_BYTES
    sparse.unlink()
    with zipfile.ZipFile(path) as zip_file:
        assert zip_file.getinfo("model/w.weights").file_size == HUGE_BYTES
        assert zip_file.getinfo("z.py").header_offset > HUGE_BYTES
    path.unlink()


def test_a_full_disk_is_one_sentence_and_nothing_stays(tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk: the kernel refuses the write alike."""
    code = (
        "import resource, signal, sys; from pathlib import Path, PurePosixPath;"
        "from marsmith import errors; from marsmith.mar import writer;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "try: writer.write_archive(Path(sys.argv[1]), {PurePosixPath('w.weights'): bytes(9 << 20)})\n"
        "except errors.ArchiveError as error: print(error)"
    )
    path = tmp_path / "m.mar"
    path.write_bytes(b"the archive of yesterday")
    result = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert result.stdout == f"The archive {path} cannot be written: File too large.\n"
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("m.mar", b"the archive of yesterday")]


def test_no_space_left_is_said_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArchiveError, match="cannot be written: No space left on device"):
        write_archive(tmp_path / "m.mar", {member("a.py"): b""})
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_directory_is_one_sentence(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        store = Path("/proc/self/marsmith")  # root may write anywhere else
    else:
        store = tmp_path / "store"
        store.mkdir(mode=0o555)
    with pytest.raises(ArchiveError, match="cannot be written"):
        write_archive(store / "m.mar", {member("a.py"): b""})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ArchiveError, match=r"The file .*gone\.weights for model/w\.weights cannot be read: No such file"
    ):
        write_archive(tmp_path / "m.mar", {member("model/w.weights"): tmp_path / "gone.weights"})
    with pytest.raises(ArchiveError, match="cannot be read: Is a directory"):
        write_archive(tmp_path / "m.mar", {member("model/w.weights"): tmp_path})
    assert list(tmp_path.iterdir()) == []


def test_a_file_name_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.json")
    (tmp_path / name).write_text("{}")
    with pytest.raises(ArchiveError, match=r"caf\\udce9\.json has a control character, or bytes that are not UTF-8"):
        write_archive(tmp_path / "m.mar", {member(name): tmp_path / name})


def test_a_file_that_grows_meanwhile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    growing = tmp_path / "w.weights"
    growing.write_bytes(b"1234")

    @contextmanager
    def grow(source: Source, name: PurePosixPath) -> Iterator[tuple[IO[bytes], int]]:
        with open_source(source, name) as opened:
            growing.write_bytes(b"123456")
            yield opened

    monkeypatch.setattr("marsmith.mar.writer.open_source", grow)
    with pytest.raises(ArchiveError, match=r"w\.weights changed while it was packed"):
        write_archive(tmp_path / "m.mar", {member("w.weights"): growing})
    assert list(tmp_path.iterdir()) == [growing]


SLOW_WRITE = """
import sys, time
from pathlib import Path, PurePosixPath
from marsmith import cli
from marsmith.mar.writer import Writer, write_archive

def copy(self, reader, method):
    Path(sys.argv[2]).touch()
    time.sleep(600)

Writer._copy = copy
cli.app = lambda: write_archive(Path(sys.argv[1]), {PurePosixPath("w.weights"): b"new"})
cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_write_leaves_the_old_archive_and_nothing_else(tmp_path: Path, number: int) -> None:
    begun = tmp_path / "begun"
    store = tmp_path / "store"
    store.mkdir()
    (store / "m.mar").write_bytes(b"old")
    process = subprocess.Popen([sys.executable, "-c", SLOW_WRITE, str(store / "m.mar"), str(begun)])
    try:
        deadline = time.monotonic() + 60
        while not begun.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert len(list(store.iterdir())) == 2
        process.send_signal(number)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
    assert [(file.name, file.read_bytes()) for file in store.iterdir()] == [("m.mar", b"old")]


def test_two_builds_of_one_name_at_once_both_leave_a_whole_archive(tmp_path: Path) -> None:
    """pytorch/serve#1532: the stock archiver stages both in one directory, and removes it first."""
    path = tmp_path / "m.mar"
    failures: list[BaseException] = []

    def write(byte: bytes) -> Callable[[], None]:
        def run() -> None:
            try:
                for _ in range(20):
                    write_archive(path, {member("w.weights"): byte * 100_000})
            except BaseException as error:
                failures.append(error)

        return run

    threads = [threading.Thread(target=write(byte)) for byte in (b"a", b"b")]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            assert verify(path).ok
    assert failures == []
    assert list(tmp_path.iterdir()) == [path]
