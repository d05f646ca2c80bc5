"""The container's first process, with a TorchServe that does as the test says."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from marsmith.container.settings import DRAINING
from tests.packaging.container.processes import alive, descendants, kill
from tests.packaging.ports import free_ports

FAKE = Path(__file__).with_name("fake_torchserve.py")
# The process becomes the parent of orphans, as the first process of a container is.
SUPERVISED = """
import ctypes, sys
from pathlib import Path
from marsmith.container.settings import Settings
from marsmith.container.supervise import supervise
from marsmith.errors import MarsmithError

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
home, port, drain_s, *command = sys.argv[1:]
settings = Settings(home=Path(home), port=int(port), drain_s=float(drain_s))
try:
    sys.exit(supervise(command, {}, settings, lambda line: print(line, flush=True)))
except MarsmithError as error:
    sys.exit(str(error))
"""
TIMEOUT_S = 60
LONG_S = 1000.0
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def one(drain_s: float = LONG_S, *, command: list[str] | None = None) -> subprocess.Popen[str]:
        port = free_ports().first
        command = command or [sys.executable, str(FAKE), str(port), str(tmp_path)]
        arguments = [sys.executable, "-c", SUPERVISED, str(tmp_path), str(port), str(drain_s), *command]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(process)
        return process

    yield one
    for process in started:
        kill(process)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_ends_with_the_server_and_not_well(start: Start, tmp_path: Path) -> None:
    process = start()
    until((tmp_path / "started").exists)
    (tmp_path / "end").write_text("0")
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert "ended by itself, with exit code 0" in output


@pytest.mark.slow
def test_sigterm_waits_for_a_worker_that_works_and_ends_well(start: Start, tmp_path: Path) -> None:
    (tmp_path / "busy").touch()
    process = start()
    until((tmp_path / "started").exists)
    served = descendants(process)
    process.send_signal(signal.SIGTERM)
    until((tmp_path / DRAINING).exists)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=3)
    assert all(alive(one) for one in served)
    (tmp_path / "busy").unlink()
    assert process.wait(timeout=TIMEOUT_S) == 0
    assert not any(alive(one) for one in served)


@pytest.mark.slow
def test_sigterm_waits_for_what_is_queued(start: Start, tmp_path: Path) -> None:
    (tmp_path / "queued").write_text("2")
    process = start()
    until((tmp_path / "started").exists)
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=3)
    (tmp_path / "queued").write_text("0")
    assert process.wait(timeout=TIMEOUT_S) == 0


@pytest.mark.slow
def test_draining_has_an_end(start: Start, tmp_path: Path) -> None:
    (tmp_path / "queued").write_text("2")
    process = start(0.5)
    until((tmp_path / "started").exists)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert "still unanswered" in output


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_cuts_it_short(start: Start, tmp_path: Path, second: signal.Signals) -> None:
    (tmp_path / "queued").write_text("2")
    process = start()
    until((tmp_path / "started").exists)
    process.send_signal(signal.SIGTERM)
    until((tmp_path / DRAINING).exists)
    process.send_signal(second)
    assert process.wait(timeout=TIMEOUT_S) == 0


def test_a_server_that_is_still_starting_is_ended_at_once(start: Start) -> None:
    process = start(command=["sleep", "1000"])
    until(lambda: bool(descendants(process)))
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=TIMEOUT_S) == 0


def test_orphans_are_reaped(start: Start, tmp_path: Path) -> None:
    (tmp_path / "orphan").touch()
    process = start()
    until((tmp_path / "started").exists)
    # The server and its worker go on; a zombie would be a third.
    until(lambda: len(descendants(process)) == 2)
    assert process.poll() is None


def test_the_server_hears_signals_though_its_parent_keeps_them_back(start: Start, tmp_path: Path) -> None:
    """Java would inherit what is blocked, and never end."""
    process = start()
    until((tmp_path / "started").exists)
    (server,) = psutil.Process(process.pid).children()
    server.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert f"exit code {-signal.SIGTERM}" in output


def test_a_program_that_is_not_there_is_one_sentence(start: Start) -> None:
    process = start(command=["/nowhere/python"])
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert output.startswith("TorchServe cannot be run here: No such file")
