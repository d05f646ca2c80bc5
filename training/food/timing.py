"""Where the time of a run goes: what `--timings FOLDER` records for `python -m training.bottleneck report`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from torch.nn.parallel import DistributedDataParallel

from training.bottleneck.clock import Clock, NoClock, StepClock, timed_allreduce
from training.bottleneck.records import RunFacts
from training.bottleneck.sampler import Sampler
from training.food.distributed import Processes


@dataclass(frozen=True, slots=True)
class Timing:
    """Records the steps of a run into `folder`, and nothing without one."""

    folder: Path | None = None

    @contextmanager
    def clock(self, processes: Processes, start: int, *, threads: int, bf16: bool) -> Iterator[Clock]:
        """Give the clock of a run after `start` steps; so many `threads` make its views ahead of time."""
        if self.folder is None:
            yield NoClock()
            return
        if processes.first:
            facts = RunFacts.here(processes.device, workers=threads, ranks=processes.local_world, bf16=bf16)
            self.folder.mkdir(parents=True, exist_ok=True)
            facts.write(self.folder)
        # A GPU is waited for: without that its time would be found in the wrong phase.
        gpu = processes.device.type == "cuda"
        with (
            Sampler(self.folder) if processes.local_rank == 0 else nullcontext(),
            StepClock(self.folder, processes.rank, start=start, synchronise=gpu) as clock,
        ):
            yield clock

    def watch(self, network: DistributedDataParallel, clock: Clock) -> None:
        """Let the clock tell the gradients' way from the rest of backward."""
        if self.folder is not None:
            network.register_comm_hook(clock, timed_allreduce)
