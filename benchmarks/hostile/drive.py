"""Send a run's batches to a real TorchServe worker, under a watchdog, and judge every answer."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.hostile.case import GOOD, Case
from benchmarks.hostile.generator import Generator
from benchmarks.hostile.judge import HARMED, Judge, check_result
from benchmarks.hostile.log import Log
from benchmarks.hostile.pace import Pace, Watch
from marsmith.errors import ServerError
from marsmith.torchserve.worker import Worker, WorkerAnswer, WorkerRequest

# A little less than the starters' own responseTimeout, after which TorchServe ends a worker.
WATCHDOG_S = 55.0
SAMPLE_BATCHES = 25
# Failures that are told one by one; all are counted.
MOST_FAILURES = 100
# What a handler prints must be in the log before the next batch is.
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
DEATH, HANG, LEAK = "death", "hang", "content in the log"


@dataclass(frozen=True, slots=True)
class Sample:
    """The worker's memory in bytes after so many requests; `worker` counts workers, of which each begins anew."""

    requests: int
    rss: int
    pss: int
    worker: int


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that went wrong with request `number` of a batch, or with the whole batch."""

    kind: str
    batch: int
    number: int
    what: str
    text: str

    def __str__(self) -> str:
        return f"batch {self.batch}, request {self.number} ({self.what}): {self.kind}: {self.text}"


@dataclass(slots=True)
class Tally:
    """What a run saw."""

    task: str
    seed: int
    requests: int = 0
    batches: int = 0
    good: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    memory: list[Sample] = field(default_factory=list)
    seconds: float = 0.0
    slowest_s: float = 0.0
    slowest_batch: int = 0
    pace: Pace = field(default_factory=Pace)


class Drive:
    """One archive's run; `environ` is laid over the worker's environment. `tell` hears of each failure at once."""

    def __init__(
        self,
        archive: Path,
        generator: Generator,
        environ: Mapping[str, str] | None = None,
        watchdog_s: float = WATCHDOG_S,
        tell: Callable[[Failure], None] = lambda _: None,
    ) -> None:
        self._archive = archive
        self._generator = generator
        self._environ = {**UNBUFFERED, **(environ or {})}
        self._watchdog_s = watchdog_s
        self._tell = tell
        self.tally = Tally(generator.task, generator.seed)
        self._workers = 0

    def run(
        self,
        requests: int,
        advance: Callable[[int], None] = lambda _: None,
        only_batch: int | None = None,
        limit_s: float = math.inf,
    ) -> Tally:
        """Send the requests, as many as `limit_s` leaves time for, or one batch of them again; what was seen.

        Raises ServerError when a worker cannot even be started or asked one good instance.
        """
        tally = self.tally
        batches = enumerate(self._generator.batches(requests))
        with contextlib.ExitStack() as stack:
            worker, judge, log = self._start(stack)
            begin = time.monotonic()
            for number, cases in batches:
                if time.monotonic() > begin + limit_s:
                    break
                if only_batch not in (None, number):
                    continue
                whole = self._batch(worker, judge, log, number, cases)
                if tally.batches % SAMPLE_BATCHES == 0 or not whole:
                    self._sample(worker)
                advance(len(cases))
                if not whole:
                    stack.close()
                    worker, judge, log = self._start(stack)
            self._sample(worker)
            tally.seconds = time.monotonic() - begin
        return tally

    def _start(self, stack: contextlib.ExitStack) -> tuple[Worker, Judge, Log]:
        worker = stack.enter_context(Worker(self._archive, self._environ))
        self._workers += 1
        judge = Judge(self._alone(worker))
        self._sample(worker)
        return worker, judge, Log(worker.log)

    def _alone(self, worker: Worker) -> dict[str, Any]:
        """Each good instance's answer where nothing is beside it."""
        answers = {}
        for name, instance in self._generator.good.items():
            (answer,) = worker.predict([WorkerRequest.raw(instance.body.data, instance.header)])
            answers[name] = json.loads(answer.body)
            check_result(answers[name])
        return answers

    def _batch(self, worker: Worker, judge: Judge, log: Log, number: int, cases: Sequence[Case]) -> bool:
        """Send one batch and judge it; False when the worker is lost."""
        tally = self.tally
        tally.batches += 1
        tally.requests += len(cases)
        tally.kinds.update(case.kind for case in cases)
        tally.good += sum(case.kind == GOOD for case in cases)
        begin = time.monotonic()
        watch = Watch(worker.pid)
        lost = ""
        answers: list[WorkerAnswer] = []
        with watchdog(worker.pid, self._watchdog_s) as barked:
            try:
                answers = worker.predict([case.request for case in cases])
            except Exception as error:  # a frame out of joint raises nearly anything
                lost = f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - begin
        if seconds > tally.slowest_s:
            tally.slowest_s, tally.slowest_batch = seconds, number
        if log.leaks():
            self._fail(LEAK, number, cases[0], "the worker's log holds something of this batch")
        if not lost and len(answers) != len(cases):
            lost = f"{len(answers)} answers to {len(cases)} requests"
        if lost:
            self._fail(HANG if barked.is_set() else DEATH, number, cases[0], lost)
            return False
        for place, (case, answer) in enumerate(zip(cases, answers, strict=True)):
            tally.statuses[answer.status] += 1
            for fault in judge.faults(case, answer, place):
                self._fail(fault.kind, number, case, fault.text)
        late = tally.pace.add(cases, seconds, watch.read())
        for case in cases if late else ():
            if case.kind == GOOD:
                self._fail(HARMED, number, case, late)
        return True

    def _fail(self, kind: str, batch: int, case: Case, text: str) -> None:
        self.tally.faults[kind] += 1
        if len(self.tally.failures) < MOST_FAILURES:
            failure = Failure(kind, batch, case.number, case.kind, text)
            self.tally.failures.append(failure)
            self._tell(failure)

    def _sample(self, worker: Worker) -> None:
        with contextlib.suppress(psutil.NoSuchProcess, ServerError):
            memory = psutil.Process(worker.pid).memory_full_info()
            self.tally.memory.append(Sample(self.tally.requests, memory.rss, memory.pss, self._workers))


@contextlib.contextmanager
def watchdog(pid: int, seconds: float) -> Any:
    """End process `pid` unless the block is done in so many seconds; the event that is given says whether it was."""
    barked = threading.Event()

    def bark() -> None:
        barked.set()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    timer = threading.Timer(seconds, bark)
    timer.daemon = True
    timer.start()
    try:
        yield barked
    finally:
        timer.cancel()
