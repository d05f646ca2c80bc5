"""A clock for the phases of a training step. It writes one JSON line a step and rank, `RUN/steps-rankR.jsonl`.

    with StepClock(run, rank) as clock:
        model.register_comm_hook(clock, timed_allreduce)        # DDP only
        for images in timed(clock, loader):                     # "data"
            with clock.phase("forward"):
                loss = ...
            with clock.phase("backward"):
                loss.backward()
            with clock.phase("optimizer"):
                optimizer.step()
            clock.step(samples=len(images))

`NoClock()` does nothing and takes the same calls, so that a loop is written once. A phase may be entered several times
a step (gradient accumulation); one inside another is subtracted from it. Times are wall time of this rank, in seconds.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol, Self, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket

PHASES = ("data", "forward", "backward", "communication", "optimizer")
# What a killed process loses at most.
FLUSH_STEPS, FLUSH_SECONDS = 50, 5.0

T = TypeVar("T")


class Clock(Protocol):
    """What a training loop calls."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time what is inside as one of PHASES."""

    def gradients_sent(self) -> None:
        """Say, inside "backward", that gradients are on their way: the rest of it may be waiting for other ranks."""

    def step(self, samples: int) -> None:
        """Close a step of `samples` samples of this rank."""

    def discard(self) -> None:
        """Forget what was timed since the last step, as when the loader turned out to be at its end."""

    def close(self) -> None:
        """Write what is still in memory."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class NoClock:
    """A clock that costs nothing and writes nothing."""

    def phase(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Time nothing."""
        return nullcontext()

    def gradients_sent(self) -> None:
        """Do nothing."""

    def step(self, samples: int) -> None:
        """Do nothing."""

    def discard(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class StepClock:
    """Times steps and appends them to the run's folder.

    A GPU works behind the program's back, so that without `synchronise` its time is found wherever the program first
    waits for it. With it, the GPU is waited for at every border of a phase: true figures, and a somewhat slower run.
    `start` is how many steps were done before, where training is resumed; a line torn by a kill is dropped then.
    """

    def __init__(
        self,
        folder: Path,
        rank: int = 0,
        *,
        start: int = 0,
        synchronise: bool = False,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = steps_file(folder, rank)
        self._synchronise = synchronise and torch.cuda.is_available()
        self._now = now
        self._number = start
        self._lines: list[str] = []
        self._open: list[str] = []
        self._flushed = now()
        self._spent = dict.fromkeys(PHASES, 0.0)
        self._began: float | None = None
        self._last = 0.0
        self._computed: float | None = None
        if self._path.exists():
            _drop_torn_line(self._path)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what is inside as one of PHASES; raises ValueError for another name."""
        if name not in PHASES:
            raise ValueError(f"{name!r} is no phase: {', '.join(PHASES)} are")
        self._switch()
        self._open.append(name)
        try:
            yield
        finally:
            self._switch()
            self._open.pop()
            if name == "backward" and self._computed is not None:
                self._spent["communication"] += self._spent["backward"] - self._computed
                self._spent["backward"], self._computed = self._computed, None

    def gradients_sent(self) -> None:
        """Note, inside "backward", that from now on it may be waiting; the last note before its end counts."""
        if self._open and self._open[-1] == "backward":
            self._switch()
            self._computed = self._spent["backward"]

    def step(self, samples: int) -> None:
        """Close a step of `samples` samples of this rank."""
        end = self._wait()
        self._number += 1
        began = end if self._began is None else self._began
        record = {"step": self._number, "samples": samples, "seconds": end - began, **self._spent}
        rounded = {key: round(value, 7) if isinstance(value, float) else value for key, value in record.items()}
        self._lines.append(json.dumps(rounded) + "\n")
        self.discard()
        if len(self._lines) >= FLUSH_STEPS or end - self._flushed >= FLUSH_SECONDS:
            self._flush()

    def discard(self) -> None:
        """Forget what was timed since the last step."""
        self._began = self._computed = None
        self._spent = dict.fromkeys(PHASES, 0.0)

    def close(self) -> None:
        """Write what is still in memory; an unfinished step is dropped."""
        self._flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _switch(self) -> None:
        """Give the time since the last border to the phase that is open."""
        now = self._wait()
        if self._began is None:
            self._began = now
        elif self._open:
            self._spent[self._open[-1]] += now - self._last
        self._last = now

    def _wait(self) -> float:
        if self._synchronise:
            torch.cuda.synchronize()
        return self._now()

    def _flush(self) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(self._lines)
        self._lines.clear()
        self._flushed = self._now()


def steps_file(folder: Path, rank: int) -> Path:
    """Where a rank's steps are."""
    return folder / f"steps-rank{rank}.jsonl"


def timed(clock: Clock, batches: Iterable[T]) -> Iterator[T]:
    """Yield `batches`, waiting for each in the phase "data"; the end of them belongs to no step."""
    iterator = iter(batches)
    while True:
        try:
            with clock.phase("data"):
                batch = next(iterator)
        except StopIteration:
            clock.discard()
            return
        yield batch


def timed_allreduce(clock: Clock, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """DDP's own all-reduce to the mean, as a communication hook: `model.register_comm_hook(clock, timed_allreduce)`.

    Gradients travel while backward computes the next ones. What costs time is what is left when nothing remains to be
    computed: from the last bucket's start to the end of backward, which is booked as "communication". It includes the
    wait for the slowest rank.
    """
    gradients = bucket.buffer().div_(dist.get_world_size())
    clock.gradients_sent()
    future = dist.all_reduce(gradients, async_op=True).get_future()
    mean: torch.futures.Future[Tensor] = future.then(lambda done: done.value()[0])
    return mean


def _drop_torn_line(path: Path) -> None:
    with path.open("rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
