"""Run TorchServe as the container's first process has to: reap, drain, and tell the truth with the exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial

import psutil

from marsmith.container.settings import DRAINING, Settings
from marsmith.errors import ContainerError, ServerError
from marsmith.torchserve.management import Model
from marsmith.torchserve.processes import end_java, family, kill_session

POLL_S = 0.25
# Workers that used no CPU time for so many looks in a row, and have nothing queued, are idle.
IDLE_LOOKS = 4
STOP_TIMEOUT_S = 10
STOPPING = frozenset({signal.SIGTERM, signal.SIGINT})


def supervise(
    command: Sequence[str],
    environ: Mapping[str, str],
    settings: Settings,
    say: Callable[[str], None],
    beside: AbstractContextManager[object] | None = None,
) -> int:
    """Run the command until it ends, or until SIGTERM or SIGINT; the exit code: 0 only after a signal.

    `beside` is entered while it runs. A second signal cuts the draining short. Raises ContainerError where the command
    cannot be run.
    """
    # Signals wait until they are asked for, in this process and not in TorchServe, so that none is lost.
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, {*STOPPING, signal.SIGCHLD})
    try:
        process = subprocess.Popen(  # noqa: S603 - our own command line
            command,
            env=dict(environ),
            cwd=settings.home,
            start_new_session=True,
            preexec_fn=partial(signal.pthread_sigmask, signal.SIG_SETMASK, usual),
        )
        with ExitStack() as stack:
            stack.callback(end, process)
            # Entered now, so that none of its threads runs while this process forks.
            if beside is not None:
                stack.enter_context(beside)
            code = _exit_code(process)
            if code is not None:
                say(f"TorchServe ended by itself, with exit code {code}")
                return 1
            (settings.home / DRAINING).touch()
            say(f"stopping: requests have {settings.drain_s:g} s to be answered")
            drain(process, settings, say)
            return 0
    except OSError as error:
        raise ContainerError(f"TorchServe cannot be run here: {error.strerror or error}.") from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)


def drain(process: subprocess.Popen[bytes], settings: Settings, say: Callable[[str], None]) -> None:
    """Return when nothing is queued and no worker works, or after the seconds that the settings give.

    TorchServe counts what is queued, and not what its workers were given: those are idle when they use no CPU time. A
    handler that waits for something else meanwhile looks idle.
    """
    deadline = time.monotonic() + settings.drain_s
    looks, used = 0, -1.0
    management = settings.management()
    while looks < IDLE_LOOKS:
        if process.poll() is not None:
            return
        if time.monotonic() > deadline:
            say("requests are still unanswered: ending all the same")
            return
        try:
            served = management.models()
        except ServerError:
            # It is still starting, so nobody was promised an answer, or is past answering.
            return
        now = _cpu_seconds(served)
        looks = looks + 1 if now == used and not any(one.queued for one in served) else 0
        used = now
        if signal.sigtimedwait(STOPPING, POLL_S):
            return


def end(process: subprocess.Popen[bytes]) -> None:
    """End Java, which ends its workers, then whatever is left of the session."""
    end_java(family(process.pid), STOP_TIMEOUT_S)
    kill_session(process)


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code of the process once it ended, None once a signal came.

    Meanwhile orphans, which the first process of a container inherits, are reaped.
    """
    while signal.sigwait({*STOPPING, signal.SIGCHLD}) not in STOPPING:
        pid = None
        with contextlib.suppress(ChildProcessError):
            while pid != 0:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == process.pid:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    return process.returncode
    return None


def _cpu_seconds(served: Sequence[Model]) -> float:
    seconds = 0.0
    for pid in (pid for model in served for pid in model.pids):
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            seconds += times.user + times.system
    return seconds
