"""A real server in another's locale, one that is killed, and one whose port is taken while it starts."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from marsmith.errors import ServerError
from marsmith.torchserve.configuration import Ports
from marsmith.torchserve.server import Server
from tests.packaging.ports import free_ports

TIMEOUT_S = 120
HANDLER = """
from pathlib import Path

def handle(data, context):
    if data is None:
        return None
    found = sorted(path.name for path in Path(context.system_properties["model_dir"]).glob("*.txt"))
    return [",".join(found)] * len(data)
"""
# Neither in ASCII nor in Latin-1.
MEMBER = "stra\u00dfe-\u0105\u4e2d.txt"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "m.mar"
    manifest = {"runtime": "python", "model": {"modelName": "m", "modelVersion": "1.0", "handler": "mine.py"}}
    with zipfile.ZipFile(path, "w") as zip_file:
        zip_file.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        zip_file.writestr("mine.py", HANDLER)
        zip_file.writestr(MEMBER, "x")
    return path


def test_a_temporary_directory_too_deep_for_sockets_is_named(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 80)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with Server([archive]) as server, pytest.raises(ServerError) as told:
        server.start()
    assert f"The temporary directory {deep} has a path that is " in str(told.value)
    assert "set TMPDIR to a shorter path" in str(told.value)
    assert list(deep.iterdir()) == []


@pytest.mark.server
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT])
def test_a_server_runs_in_utf8_and_is_gone_with_whoever_started_it(
    number: signal.Signals, archive: Path, tmp_path: Path, short_directory: Path
) -> None:
    ports = free_ports()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    environ |= {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "TMPDIR": str(short_directory)}
    command = [sys.executable, "-m", "marsmith", "serve", str(archive), "--port", str(ports.first)]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        family: list[psutil.Process] = []
        try:
            line = process.stderr.readline()
            assert line.startswith("Serving m at "), line + process.stderr.read()
            asked = subprocess.run(
                [sys.executable, "-m", "marsmith", "predict", "m", "--file", str(texts(tmp_path)), "--url", ports.url],
                env=environ,
                capture_output=True,
                text=True,
            )
            assert (asked.returncode, asked.stderr.strip()) == (0, "")
            assert ascii(MEMBER)[1:-1] in asked.stdout.replace("\n", "")
            family = psutil.Process(process.pid).children(recursive=True)
            assert sum(one.name() == "java" for one in family) == 1
        finally:
            process.send_signal(number)
        _, alive = psutil.wait_procs(family, timeout=TIMEOUT_S)
    assert alive == []
    ports.check_free()
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


def texts(directory: Path) -> Path:
    file = directory / "texts.txt"
    file.write_text("x\n")
    return file


@pytest.fixture
def taken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ports]:
    """Ports of which one is taken after they were looked at."""
    ports = free_ports()
    check, looked = Ports.check_free, []

    def check_later(self: Ports) -> None:
        looked.append(self)
        if len(looked) > 1:
            check(self)

    monkeypatch.setattr(Ports, "check_free", check_later)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", ports.first + request.param))
        other.listen()
        yield ports


@pytest.mark.server
@pytest.mark.parametrize("taken", range(5), indirect=True)
def test_a_port_that_another_took_meanwhile_is_the_reason(taken: Ports, archive: Path) -> None:
    with Server([archive], taken) as server:
        server.start()
        with pytest.raises(ServerError, match=r"Port \d+ cannot be used .*in use.*: stop what listens there"):
            server.wait_ready()
