"""What is measured: Marsmith and each baseline, as something that can be made, started, asked and stopped."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Literal

import psutil

from benchmarks.speed.agreement import Answer
from marsmith.torchserve.configuration import HOST, Ports
from marsmith.torchserve.processes import Guarded

Task = Literal["sentiment", "food"]

READY_TIMEOUT_S = 300.0
# How often a server that starts is asked: finer than what is measured.
POLL_S = 0.05
REQUEST_TIMEOUT_S = 120.0
MAX_REFUSAL_BYTES = 500
STOP_TIMEOUT_S = 20.0


class BenchmarkError(Exception):
    """The run cannot go on, or what it found must not be published. The text says why."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a subject serves, and with how much: the same for all.

    `home` is a directory of the subject's own; the server listens on `port` of loopback, and may use the four after it.
    """

    task: Task
    checkpoint: Path
    home: Path
    port: int
    threads: int
    batch_size: int
    delay_ms: int


class Subject(ABC):
    """A server of one checkpoint. `name` is its column, `title` says what it is, `python` runs it."""

    name: str
    title: str
    tasks: tuple[Task, ...] = ("sentiment", "food")
    path: str = "/"
    # Whether its answers are the checkpoint's.
    answers: bool = True
    # Whether it is what all others are compared with.
    ours: bool = False

    def __init__(self, job: Job, python: Path | None = None) -> None:
        self.job = job
        self.python = python or Path(sys.executable)
        self._process: Guarded | None = None

    def prepare(self) -> None:
        """Make what the server needs; the default needs nothing but the checkpoint."""
        return

    @abstractmethod
    def command(self, workers: int) -> list[str]:
        """The command line of the server."""

    @abstractmethod
    def body(self, data: bytes) -> bytes:
        """The request about one input: UTF-8 text or an image file."""

    @abstractmethod
    def content_type(self) -> str:
        """The request's content type; empty for none."""

    @abstractmethod
    def answer(self, raw: str) -> Answer:
        """The label and scores in the body of an answer. Raises ValueError or KeyError for one that has none."""

    @contextmanager
    def set_up_for_several(self) -> Iterator[None]:
        """What is started meanwhile is configured for several workers, where that makes a difference."""
        yield

    def environment(self) -> dict[str, str]:
        """The server's environment: the thread budget, no download, and no Python path of ours."""
        threads = str(self.job.threads)
        own = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1", "TMPDIR": str(self.home)}
        return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own

    @property
    def home(self) -> Path:
        """The subject's own directory."""
        return self.job.home

    @property
    def log(self) -> Path:
        """What the server says."""
        return self.home / "server.log"

    def start(self, probe: bytes, workers: int = 1) -> float:
        """Start the server; the seconds until it has answered `probe`, a request.

        Raises ServerError for a port that is taken, BenchmarkError for a server that does not answer.
        """
        Ports(self.job.port).check_free()
        begin = time.perf_counter()
        with self.log.open("wb") as log:
            self._process = Guarded(
                self.command(workers),
                cwd=self.home,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        while (refusal := self._refusal(probe)) is not None:
            if self._process.poll() is not None:
                raise BenchmarkError(f"{self.name} ended before it answered: see {self.log}.")
            if time.perf_counter() - begin > READY_TIMEOUT_S:
                raise BenchmarkError(
                    f"{self.name} did not answer within {READY_TIMEOUT_S:.0f} s: see {self.log}. {refusal}".strip()
                )
            time.sleep(POLL_S)
        return time.perf_counter() - begin

    def add_worker(self, probe: bytes) -> None:
        """Serve with two workers; by default by starting again."""
        self.stop()
        self.start(probe, workers=2)

    def _refusal(self, body: bytes) -> str | None:
        """What the server says when it does not answer a request, empty where it says nothing; None for an answer."""
        connection = http.client.HTTPConnection(HOST, self.job.port, timeout=REQUEST_TIMEOUT_S)
        headers = {"Content-Type": self.content_type()} if self.content_type() else {}
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("POST", self.path, body, headers)
            response = connection.getresponse()
            text = response.read(MAX_REFUSAL_BYTES).decode("utf-8", "replace")
            return None if response.status == HTTPStatus.OK else f"It says {response.status}: {text}"
        return ""

    def processes(self) -> list[psutil.Process]:
        """The server's processes, the first one first."""
        if self._process is None:
            return []
        return self._process.family()

    def pause(self) -> None:
        """Take the processor from the server, so that one that idles busily costs the others nothing."""
        self._signal(signal.SIGSTOP)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Give the processor back for a while."""
        self._signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.pause()

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def stop(self) -> None:
        """End the server and all that it started. Safe to call twice."""
        guarded, processes = self._process, self.processes()
        self._process = None
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        psutil.wait_procs(processes, timeout=STOP_TIMEOUT_S)
        if guarded is not None:
            guarded.end()


@contextmanager
def stopped_at_last(subjects: Sequence[Subject]) -> Iterator[None]:
    """Whatever happens, no server is left."""
    try:
        yield
    finally:
        for subject in subjects:
            subject.stop()
