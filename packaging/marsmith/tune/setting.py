"""What can be tried: how many workers of how many threads, which precision, which batches, and in which order.

Everything at once would take an hour. So after the recipe as it is, one thing at a time is varied: precisions and
workers, with the recipe's batch size and the shortest delay; then the batch sizes of the best two; then the delays of
the best two of those. The shortest comes first because a lone request pays all of it (Model.pollBatch of TorchServe
waits that long for a second one), and would hide what else makes a setting slow for it.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import get_args

from marsmith.errors import TuneError
from marsmith.ground.cores import intra_op_threads
from marsmith.recipe.members import NO_CHECKPOINT
from marsmith.recipe.recipe import Recipe

BATCH_SIZES = (1, 8, 16, 32)
DELAYS_MS = (1, 5)
ARM64 = ("aarch64", "arm64")
# How many go on to the next round.
BEST = 2


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to serve an archive; `threads` are those of each worker."""

    precision: str
    workers: int
    threads: int
    batch_size: int
    max_batch_delay_ms: int

    def __str__(self) -> str:
        batches = f"batches of {self.batch_size}, {self.max_batch_delay_ms} ms"
        return f"{self.precision}, {self.workers} x {self.threads} threads, {batches}"


@dataclass(frozen=True, slots=True)
class Choices:
    """The values to try of each key; `threads` None gives every worker its share of the `cores`."""

    cores: int
    precisions: tuple[str, ...]
    workers: tuple[int, ...]
    threads: tuple[int, ...] | None = None
    batch_sizes: tuple[int, ...] = BATCH_SIZES
    delays_ms: tuple[int, ...] = DELAYS_MS

    def plans(self) -> list[tuple[int, int]]:
        """(workers, threads) that fit the cores. Raises TuneError when none does."""
        plans = [
            (workers, threads)
            for workers in self.workers
            for threads in self.threads or (intra_op_threads(self.cores, workers),)
            if workers * threads <= self.cores
        ]
        if not plans:
            raise TuneError(
                f"Workers x threads would pass the {self.cores} cores of this machine in every setting: "
                "name fewer with --workers or --threads."
            )
        return plans

    def first(self, recipe: Recipe) -> list[Setting]:
        """The first round: the recipe as it is, then every precision and number of workers."""
        shortest = min(self.delays_ms)
        grid = [
            Setting(precision, *plan, recipe.serving.batch_size, shortest)
            for precision, plan in product(self.precisions, self.plans())
        ]
        now = setting_of(recipe, self.cores)
        fits = now.precision in self.precisions and now.workers * now.threads <= self.cores
        return list(dict.fromkeys([now, *grid] if fits else grid))

    def batches(self, setting: Setting) -> list[Setting]:
        """`setting` with every batch size."""
        return [replace(setting, batch_size=size) for size in self.batch_sizes]

    def delays(self, setting: Setting) -> list[Setting]:
        """`setting` with every delay; one request never waits for company."""
        delays_ms = self.delays_ms if setting.batch_size > 1 else ()
        return [replace(setting, max_batch_delay_ms=delay_ms) for delay_ms in delays_ms]

    def most(self, recipe: Recipe) -> tuple[int, int, int]:
        """How many settings each round measures at most."""
        first = len(self.first(recipe))
        second = min(BEST, first) * len({*self.batch_sizes} - {recipe.serving.batch_size})
        return first, second, min(BEST, first + second) * (len(self.delays_ms) - 1)


def setting_of(recipe: Recipe, cores: int) -> Setting:
    """How the recipe is served as it is."""
    serving = recipe.serving
    threads = serving.threads or intra_op_threads(cores, serving.workers)
    precision = recipe.precision if recipe.checkpoint else NO_CHECKPOINT
    return Setting(precision, serving.workers, threads, serving.batch_size, serving.max_batch_delay_ms)


def precisions_of(recipe: Recipe, wanted: Sequence[str] | None = None) -> tuple[str, ...]:
    """The precisions to try: those `wanted`, else the recipe's and all that this CPU tells apart. Raises TuneError."""
    if recipe.checkpoint is None:
        if wanted:
            raise TuneError(f"The {recipe.task} task has no network, and so no precision: leave --precisions out.")
        return (NO_CHECKPOINT,)
    known = get_args(Recipe.model_fields["precision"].annotation)
    for one in wanted or ():
        if one not in known:
            raise TuneError(f"There is no precision {one}: choose from {', '.join(known)}.")
    if wanted:
        return tuple(dict.fromkeys(wanted))
    # Only Arm's CPUs have the products of bf16 that ONNX Runtime computes.
    useful = known if platform.machine() in ARM64 else [one for one in known if one != "bf16"]
    return tuple(one for one in known if one in {*useful, recipe.precision})


def workers_of(cores: int) -> tuple[int, ...]:
    """1, 2, 4 and so on, up to one for each core."""
    return tuple(1 << power for power in range(cores.bit_length()))
