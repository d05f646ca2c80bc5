"""Which photos a step sees: a pure function of the step, shared out evenly among the processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from training.errors import TrainingError
from training.food.augment import Augmentation, Mixture, mix, order, views
from training.food.distributed import Processes
from training.food.photos import Photos


@dataclass(frozen=True, slots=True)
class Batch:
    """B views [B, 3, S, S] in 0..1 of the photos `items` int64 [B], their labels int64 [B], and how they were mixed."""

    epoch: int
    items: Tensor
    views: Tensor
    labels: Tensor
    mixture: Mixture | None

    def to(self, device: torch.device) -> Batch:
        """Return the batch with views and labels on `device`."""
        mixture = self.mixture
        if mixture is not None:
            mixture = Mixture(mixture.share.to(device), mixture.partner.to(device))
        return Batch(self.epoch, self.items, self.views.to(device), self.labels.to(device), mixture)


@dataclass(frozen=True, slots=True)
class Batches:
    """`size` photos a step over all processes together, in `accumulate` parts; what is left of an epoch is dropped.

    The photos left out differ from epoch to epoch. `kept` views of each photo take turns when it is not 0, see
    `cache`.
    """

    photos: Photos
    how: Augmentation
    size: int
    accumulate: int
    processes: Processes
    kept: int = 0

    def check(self) -> None:
        """Raise TrainingError when the photos do not fill a step, or a step cannot be shared out evenly."""
        shares = self.processes.world * self.accumulate
        pairs = 2 if self.how.mixup or self.how.cutmix else 1
        if self.size > len(self.photos):
            raise TrainingError(f"A batch of {self.size} is more than the {len(self.photos)} photos: lower --batch.")
        if self.size % (shares * pairs):
            of_pairs = " pairs (of mixup)" if pairs == 2 else ""
            raise TrainingError(
                f"A batch of {self.size} cannot be shared out evenly among {self.processes.world} processes x "
                f"{self.accumulate} parts{of_pairs}: choose a multiple of {shares * pairs}."
            )

    @property
    def per_epoch(self) -> int:
        """Steps in an epoch."""
        return len(self.photos) // self.size

    def parts(self, step: int) -> Iterator[Batch]:
        """Yield this process's parts of step `step`, counted from 0 over all epochs."""
        epoch, within = divmod(step, self.per_epoch)
        items = order(self.how.seed, epoch, len(self.photos))
        share = self.size // (self.processes.world * self.accumulate)
        for part in range(self.accumulate):
            first = within * self.size + (part * self.processes.world + self.processes.rank) * share
            yield self.batch(items[first : first + share], epoch, first)

    def batch(self, items: Tensor, epoch: int, first: int) -> Batch:
        """Make the views of `items`, which stand from place `first` on in the epoch's order."""
        look = epoch % self.kept if self.kept else epoch
        seen = views(self.photos.pixels(items), items.tolist(), look, self.how)
        mixed, mixture = mix(seen, first, epoch, self.how)
        return Batch(epoch, items, mixed, self.photos.labels[items], mixture)

    def steps(self, start: int, stop: int, threads: int) -> Iterator[list[Batch]]:
        """Yield the parts of each step, made by `threads` threads ahead of time; by the caller's own when 0."""
        if not threads:
            for step in range(start, stop):
                yield list(self.parts(step))
            return
        with ThreadPoolExecutor(threads) as pool:
            ahead = deque[Future[list[Batch]]]()
            for step in range(start, stop):
                while len(ahead) <= threads and step + len(ahead) < stop:
                    ahead.append(pool.submit(lambda at: list(self.parts(at)), step + len(ahead)))
                yield ahead.popleft().result()
