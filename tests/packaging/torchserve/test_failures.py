"""The reason of a failed start, out of what was logged: the cause, not the last line."""

import errno
import os
from pathlib import Path

import pytest

from marsmith.cli import main
from marsmith.errors import ServerError, last_line
from marsmith.torchserve import server as serving
from marsmith.torchserve.configuration import Ports
from marsmith.torchserve.failures import FULL, full_disk, java_failure, worker_failure
from marsmith.torchserve.server import Server
from tests.packaging.ports import free_ports

OLD_JAVA = """Error: A JNI error has occurred, please check your installation and try again
Exception in thread "main" java.lang.UnsupportedClassVersionError: org/pytorch/serve/ModelServer has been compiled by
\tat java.lang.ClassLoader.defineClass1(Native Method)
\tat sun.launcher.LauncherHelper.checkAndLoadMain(LauncherHelper.java:468)
"""
WRAPPED = """2026-01-01T00:00:00,000 WARN  ModelServer Failed to load model: m.mar
org.pytorch.serve.archive.model.InvalidModelException: Failed to parse manifest
\tat org.pytorch.serve.archive.model.ModelArchive.validate(ModelArchive.java:1)
Caused by: com.google.gson.JsonSyntaxException: java.lang.IllegalStateException: Expected an int
\tat com.google.gson.Gson.fromJson(Gson.java:1)
Caused by: java.lang.IllegalStateException: Expected an int at line 1
\t... 12 more
2026-01-01T00:00:01,000 ERROR ModelServer
java.lang.RuntimeException: a later one
\tat x.y(Z.java:1)
"""


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (OLD_JAVA, "UnsupportedClassVersionError: org/pytorch/serve/ModelServer has been compiled by"),
        (
            WRAPPED,
            "InvalidModelException: Failed to parse manifest, "
            "caused by IllegalStateException: Expected an int at line 1",
        ),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat a.b(C.java:1)\n", "OutOfMemoryError: Java heap space"),
        (
            "Error: Could not find or load main class x\nCaused by: java.lang.ClassNotFoundException: x\n",
            "ClassNotFoundException: x",
        ),
        ("java.io.IOException\n\tat a.b(C.java:1)\n", "IOException"),
        ("no exception\n", None),
        ("", None),
    ],
)
def test_the_first_exception_of_java_and_its_last_cause_are_the_reason(log: str, reason: str | None) -> None:
    assert java_failure(log) == reason


def test_a_worker_says_why_it_did_not_load() -> None:
    log = """2026-01-01T00:00:00,000 W-9000-m-stdout Backend worker process died.
2026-01-01T00:00:00,000 W-9000-m-stdout Traceback (most recent call last):
2026-01-01T00:00:00,000 W-9000-m-stdout ModuleNotFoundError: No module named 'a'
2026-01-01T00:00:00,000 W-9000-m-stdout During handling of the above exception, another exception occurred:
2026-01-01T00:00:00,000 W-9000-m-stdout ModuleNotFoundError: No module named 'ts.torch_handler.m'
"""
    assert worker_failure(log) == "ModuleNotFoundError: No module named 'a'"
    assert worker_failure("all is well\n") is None
    assert last_line("a\nb \n\n") == "b"
    assert last_line("\n") == ""


@pytest.mark.parametrize("number", FULL)
def test_a_full_disk_is_found_by_writing(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, data: bytes) -> int:
        raise OSError(number, os.strerror(number), str(path))

    assert full_disk(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(Path, "write_bytes", refuse)
    found = full_disk(tmp_path)
    assert found is not None
    assert found.startswith(f"Nothing more can be written below {tmp_path} ({os.strerror(number)}): make room")


def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, console: str, ports: Ports) -> Server:
    """A server whose TorchServe wrote this to the console, and ended."""
    script = tmp_path / "ended.py"
    script.write_text(f"import sys\nsys.stderr.write({console!r})\n")
    server = Server([], ports)
    server.archives = {"m": tmp_path / "m.mar"}
    server._sources = {"m": tmp_path / "m.mar"}
    monkeypatch.setattr(serving, "startup_timeout_s", lambda _: 0)
    monkeypatch.setattr(serving, "workers_of", lambda _: 1)
    monkeypatch.setattr("marsmith.torchserve.server.sys.executable", str(tmp_path / "python"))
    (tmp_path / "python").write_text(f"#!/bin/sh\nexec python3 {script}\n")
    (tmp_path / "python").chmod(0o755)
    return server


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "java.io.IOException: No space left on device\n\tat x.y(Z.java:1)\n",
            "Nothing more can be written below .*No space left",
        ),
        (
            "java.net.BindException: Address already in use\n\tat x.y(Z.java:1)\n",
            "One of the ports .* was in use: stop what",
        ),
        (OLD_JAVA, "TorchServe ended before it was ready. UnsupportedClassVersionError: "),
        ("only this\n", "TorchServe ended before it was ready. The last line of its log: only this"),
    ],
)
def test_a_server_that_ends_says_why(said: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(tmp_path, monkeypatch, console=said, ports=free_ports()) as server:
        server.start()
        with pytest.raises(ServerError, match=reason):
            server.wait_ready(60)


def test_a_full_temporary_directory_is_called_that_by_any_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "x/y"))

    monkeypatch.setattr("marsmith.torchserve.server.fill", full)
    monkeypatch.setattr("sys.argv", ["marsmith", "serve", "m.mar"])
    with pytest.raises(SystemExit):
        main()
    where = f"{tmp_path}/x (No space left on device)"
    assert capsys.readouterr().err == (
        f"error: Nothing more can be written below {where}: make room there, or set TMPDIR to another directory.\n"
    )
