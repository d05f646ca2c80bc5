"""The live check: a container is started, must become healthy, answer the golden requests, and end when it is told."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from marsmith.errors import MarsmithError, last_line
from marsmith.evidence.replay import on_server
from marsmith.ground.progress import Progress, silent
from marsmith.image.results import Result

READY_TIMEOUT_S = 600
# An emulator may multiply a hundred times slower than the CPU that it runs on.
EMULATED_READY_TIMEOUT_S = 3600
# Kubernetes kills after 30 s: terminationGracePeriodSeconds.
DRAIN_LIMIT_S = 30
POLL_S = 1.0
# 0, or 128 + SIGTERM of a program that lets the signal end it.
GOOD_EXITS = (0, 143)


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a health check ended well, and the last line that it wrote, which names what is not ready."""

    ok: bool
    message: str = ""

    @classmethod
    def of(cls, process: subprocess.CompletedProcess[str]) -> Health:
        """What a health check's process came to."""
        return cls(process.returncode == 0, last_line(process.stdout))


class Container(Protocol):
    """A container that is being checked."""

    url: str

    def start(self) -> None:
        """Start it. Raises ImageError."""

    def running(self) -> bool:
        """Whether it has not ended."""

    def health(self) -> Health:
        """What its own health check says."""

    def said(self) -> str:
        """Its last words."""

    def stop(self, limit_s: float) -> int:
        """Send SIGTERM, wait, and past the limit SIGKILL; its exit code. Raises ImageError."""

    def remove(self) -> None:
        """End it whatever it does, and remove it. Safe to call twice."""


@dataclass(frozen=True, slots=True)
class Answered:
    """How many golden requests of an archive were answered as expected, and what differs in the others."""

    archive: str
    requests: int
    wrong: tuple[str, ...]


@dataclass(slots=True)
class Run:
    """What was seen; times are seconds, and None for what was not come to. `fault` is why it was not."""

    ready_s: float | None = None
    drain_s: float | None = None
    exit_code: int | None = None
    answered: list[Answered] = field(default_factory=list)
    fault: str = ""


def observe(
    container: Container,
    archives: Sequence[Path],
    progress: Progress = silent,
    timeout_s: float = READY_TIMEOUT_S,
    drain_limit_s: float = DRAIN_LIMIT_S,
) -> Run:
    """Run a container through its life; it is removed whatever happens. Raises ImageError when it cannot be run."""
    run = Run()
    try:
        progress("starting the container")
        begin = time.monotonic()
        container.start()
        while not (health := container.health()).ok:
            if not container.running():
                run.fault = f"it ended before it was ready: {container.said() or 'it said nothing'}"
                return run
            waited_s = time.monotonic() - begin
            if waited_s > timeout_s:
                waits = [health.message, container.said() or "it said nothing"]
                run.fault = f"it was not ready within {timeout_s:.0f} s: {'; '.join(filter(None, waits))}"
                return run
            progress(f"waiting {waited_s:.0f} of {timeout_s:.0f} s until it is ready: {health.message or 'starting'}")
            time.sleep(POLL_S)
        run.ready_s = time.monotonic() - begin
        for path in archives:
            progress(f"asking {path.name} its golden requests")
            run.answered.append(_ask(path, container.url))
        progress("stopping it")
        begin = time.monotonic()
        run.exit_code = container.stop(drain_limit_s)
        run.drain_s = time.monotonic() - begin
    finally:
        container.remove()
    return run


def _ask(path: Path, url: str) -> Answered:
    try:
        outcomes = list(on_server(path, url))
    except MarsmithError as error:
        return Answered(path.name, 0, (str(error),))
    wrong = tuple(f"{path.name}, {one.name}: {one.differences[0]}" for one in outcomes if not one.ok)
    return Answered(path.name, len(outcomes), wrong)


def run_results(run: Run, drain_limit_s: float = DRAIN_LIMIT_S) -> list[Result]:
    """The run as results of checks."""
    if run.ready_s is None:
        return [Result("ready", "wrong", run.fault)]
    results = [Result("ready", "ok", f"after {run.ready_s:.1f} s")]
    wrong = tuple(fault for one in run.answered for fault in one.wrong)
    count = sum(one.requests for one in run.answered)
    if wrong:
        results.append(Result("golden requests", "wrong", f"{len(wrong)} of {count} are answered otherwise", wrong))
    elif run.answered:
        message = f"all {count} of {len(run.answered)} archives are answered as expected"
        results.append(Result("golden requests", "ok", message))
    else:
        results.append(Result("golden requests", "note", "there is no archive in the image: name some to be mounted"))
    if run.drain_s is None or run.exit_code is None:
        return [*results, Result("stop", "wrong", run.fault or "it was not stopped")]
    took = f"{run.drain_s:.1f} s after SIGTERM, exit code {run.exit_code}"
    if run.drain_s >= drain_limit_s:
        return [*results, Result("stop", "wrong", f"it had to be killed {took}: Kubernetes waits as long")]
    good = run.exit_code in GOOD_EXITS
    return [*results, Result("stop", "ok" if good else "wrong", f"ended {took}")]
