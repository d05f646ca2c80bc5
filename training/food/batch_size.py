"""The largest batch that fits the memory: doubled until one does not, then narrowed down (`--find-batch-size`)."""

from __future__ import annotations

import gc
from collections.abc import Callable

import psutil
import torch

from training.errors import TrainingError
from training.food.progress import console

CPU_SHARE = 0.8  # of the memory that is free, where a CPU would swap or be killed past the whole of it


def largest(fits: Callable[[int], bool], multiple: int, limit: int) -> int:
    """Return the largest multiple of `multiple` up to `limit` that fits, if all smaller ones do.

    Raises TrainingError when not even `multiple` fits.
    """
    top = limit // multiple
    if top < 1 or not fits(multiple):
        raise TrainingError(f"Not even a batch of {multiple} fits: use smaller pictures or a smaller network.")
    good, bad = 1, top + 1
    while good < top and bad == top + 1:
        trial = min(2 * good, top)
        if fits(trial * multiple):
            good = trial
        else:
            bad = trial
    while bad - good > 1:
        trial = (good + bad) // 2
        if fits(trial * multiple):
            good = trial
        else:
            bad = trial
    return good * multiple


def fits_gpu(step: Callable[[int], None], batch: int) -> bool:
    """Run a step of so many photos; False when the GPU has not the memory for it."""
    try:
        step(batch)
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        gc.collect()
        torch.cuda.empty_cache()
    return True


class FitsCpu:
    """Whether a step of so many photos stays within `limit` bytes, foretold from two small steps.

    A CPU gives no error to catch: the kernel ends the process. Activations grow in proportion to the batch, so the
    bytes that two batches save for the backward pass tell those of any.
    """

    def __init__(self, step: Callable[[int], None], multiple: int, limit: int | None) -> None:
        self.limit = limit if limit is not None else int(CPU_SHARE * psutil.virtual_memory().available)
        small, large = (saved_bytes(step, size) for size in (multiple, 2 * multiple))
        self.each = max(1.0, (large - small) / multiple)
        self.fixed = max(0.0, small - self.each * multiple)

    def __call__(self, batch: int) -> bool:
        """Foretell whether `batch` photos fit."""
        return self.fixed + self.each * batch <= self.limit


def saved_bytes(step: Callable[[int], None], batch: int) -> int:
    """Return the bytes of the tensors that a step of `batch` photos keeps for its backward pass, each counted once."""
    sizes = dict[int, int]()

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        step(batch)
    return sum(sizes.values())


def find(step: Callable[[int], None], multiple: int, limit: int, device: torch.device, memory: int | None) -> int:
    """Return the largest batch that `step` fits into a GPU's memory, or into `memory` bytes of a CPU's."""
    fits = FitsCpu(step, multiple, memory) if device.type == "cpu" else lambda batch: fits_gpu(step, batch)
    found = largest(fits, multiple, limit)
    console.print(f"the largest batch that fits is {found} photos")
    return found
