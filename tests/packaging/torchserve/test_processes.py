"""What Marsmith starts never outlives it, however it ends."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from marsmith.torchserve.processes import Guarded

TIMEOUT_S = 30
# A family as of a TorchServe: a child, one below it, and one that left the session.
FAMILY = "sleep 600 & setsid sleep 601 & sh -c 'sleep 602' & sleep 603"
MEMBERS = 5
STARTER = f"""
import sys, time
from pathlib import Path
from marsmith.torchserve.processes import Guarded
process = Guarded(["sh", "-c", {FAMILY!r}], remove=Path(sys.argv[1]))
sys.stdout.write(f"{{process.pid}}\\n")
sys.stdout.flush()
time.sleep(600)
"""


def family(pid: int) -> list[psutil.Process]:
    """A guard and all below it, once they are there."""
    deadline = time.monotonic() + TIMEOUT_S
    while len(found := psutil.Process(pid).children(recursive=True)) < MEMBERS:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return [psutil.Process(pid), *found]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP])
def test_whatever_ends_the_starter_ends_all_that_it_started(number: signal.Signals, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    (scratch / "deep").mkdir(parents=True)
    command = [sys.executable, "-c", STARTER, str(scratch)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        started = family(int(starter.stdout.readline()))
        starter.send_signal(number)
        _, alive = psutil.wait_procs(started, TIMEOUT_S)
    assert alive == []
    assert not scratch.exists()


def test_ending_it_ends_all_that_it_started() -> None:
    process = Guarded(["sh", "-c", FAMILY])
    started = family(process.pid)
    process.end()
    process.end()
    assert psutil.wait_procs(started, TIMEOUT_S)[1] == []


def test_one_that_is_stopped_is_ended_too() -> None:
    process = Guarded(["sh", "-c", FAMILY])
    started = family(process.pid)
    for one in started[1:]:
        one.suspend()
    process.end()
    assert psutil.wait_procs(started, TIMEOUT_S)[1] == []


def test_what_a_command_leaves_behind_is_ended() -> None:
    process = Guarded(["sh", "-c", "sleep 600 & echo $!; exit 7"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    left = int(process.stdout.readline())
    assert process.wait(TIMEOUT_S) == 7
    assert not psutil.pid_exists(left)
    process.stdout.close()


@pytest.mark.parametrize("code", [0, 3, -signal.SIGTERM, -signal.SIGKILL, -signal.SIGHUP])
def test_it_ends_as_the_command_does(code: int) -> None:
    end = f"os.kill(os.getpid(), {-code})" if code < 0 else f"sys.exit({code})"
    process = Guarded([sys.executable, "-c", f"import os, sys; {end}"])
    assert process.wait(TIMEOUT_S) == code


def test_a_command_that_cannot_be_run_is_said_as_a_shell_does(tmp_path: Path) -> None:
    process = Guarded([str(tmp_path / "missing")], stderr=subprocess.PIPE, text=True)
    _, said = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, said) == (127, f"{tmp_path}/missing cannot be run: No such file or directory\n")


def test_the_command_holds_nothing_of_the_guard() -> None:
    """A pipe that it inherited would keep others waiting."""
    process = Guarded(["ls", "/proc/self/fd"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    found, _ = process.communicate(timeout=TIMEOUT_S)
    assert len(found.split()) == 4  # standard streams, and the directory that is listed
