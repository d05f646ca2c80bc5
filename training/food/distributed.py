"""The processes that share a training: torchrun starts them, this module joins them.

Without torchrun there is one process and nothing to join.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from training.errors import TrainingError

Item = TypeVar("Item")
Backend = Literal["nccl", "gloo", "smddp"]
SMDDP = "smdistributed.dataparallel.torch.torch_smddp"
CPU = torch.device("cpu")
WAIT = timedelta(minutes=30)  # for a process that reads data, scores or writes while the others wait


@dataclass(frozen=True, slots=True)
class Processes:
    """Process `rank` of `world`, `local_rank` of `local_world` on its machine; its tensors live on `device`."""

    rank: int = 0
    world: int = 1
    device: torch.device = CPU
    local_rank: int = 0
    local_world: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.world > 1:
            with others_alive():
                dist.barrier()

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean of a scalar over all processes."""
        if self.world == 1:
            return value
        total = value.detach().clone()
        with others_alive():
            dist.all_reduce(total)
        return total / self.world

    def gather(self, value: Item) -> list[Item]:
        """Return the plain-data `value` of every process, in order."""
        if self.world == 1:
            return [value]
        found: list[Item | None] = [None] * self.world
        with others_alive():
            dist.all_gather_object(found, value)
        return [item for item in found if item is not None]


@contextmanager
def others_alive() -> Iterator[None]:
    """Raise TrainingError where another process has stopped and the backend cannot reach it."""
    try:
        yield
    except RuntimeError as error:
        raise TrainingError("Another process of this training has stopped: its own message says why.") from error


@contextmanager
def joined(backend: Backend | None = None) -> Iterator[Processes]:
    """Join the processes that torchrun started, and part from them at the end.

    `backend` is nccl on GPUs and gloo on CPUs where it is None. Raises TrainingError for one that is not to be had.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    cuda = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if world == 1:
        yield Processes(device=device)
        return
    chosen = backend or ("nccl" if cuda else "gloo")
    if chosen == "nccl" and not (cuda and dist.is_nccl_available()):
        raise TrainingError("The backend nccl needs an NVIDIA GPU, and there is none: pass --backend gloo.")
    if chosen == "smddp":
        try:
            importlib.import_module(SMDDP)
        except ImportError:
            raise TrainingError(
                "The backend smddp needs Amazon's smdistributed.dataparallel, which only SageMaker's training images "
                "have: pass --backend nccl, or run in such an image."
            ) from None
    dist.init_process_group(chosen, timeout=WAIT)
    try:
        locals_ = int(os.environ.get("LOCAL_WORLD_SIZE", str(world)))
        yield Processes(dist.get_rank(), dist.get_world_size(), device, local, locals_)
    finally:
        dist.destroy_process_group()
