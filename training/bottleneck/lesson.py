"""A lesson for few cores: the same small training job with more and more loader workers.

The job is real: JPEG photos are decoded and augmented in DataLoader workers, and a ViT of DeiT-tiny's shape learns from
them on the same cores. Only the number of workers changes. Each number is run several times, in turns, so that a
disturbance of the machine meets them all.
"""

import math
import os
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageEnhance
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset
from transformers import ViTConfig, ViTForImageClassification

from training.bottleneck.clock import Clock, StepClock, timed
from training.bottleneck.records import RunFacts, Step, read_run
from training.bottleneck.report import ROWS, WARM_UP_STEPS, spread
from training.bottleneck.sampler import Sampler
from training.errors import TrainingError

PHOTOS = Path(__file__).resolve().parents[2] / "models" / "food" / "samples"
SEED = 11
# DeiT-tiny (Touvron et al., ICML 2021); the depth is a setting, so that tests are quick.
WIDTH, HEADS, PATCH = 192, 3, 16
CLASSES = 10
LEARNING_RATE = 1e-4
PREFETCH = 2  # batches that each worker keeps ready: PyTorch's default
# A random crop of this share of the photo, and brightness, contrast and colour changed by up to JITTER.
CROP_AREA, JITTER = (0.35, 1.0), 0.4


@dataclass(frozen=True, slots=True)
class Job:
    """What is run: `steps` of `batch` photos are timed; `side` of the input and `photo` of the JPEG files in pixels."""

    workers: tuple[int, ...] = (0, 1, 2, 4, 8)
    rounds: int = 2
    steps: int = 20
    batch: int = 16
    side: int = 96
    photo: int = 2048
    layers: int = 12

    def check(self) -> None:
        """Raise TrainingError for what cannot be run."""
        if not self.workers or min(self.workers) < 0 or len(set(self.workers)) < len(self.workers):
            raise TrainingError("Name each number of workers once, 0 or more: 0,1,2,4.")
        if min(self.rounds, self.steps, self.batch, self.photo, self.layers) < 1:
            raise TrainingError("Rounds, steps, batch, photo and layers must be 1 or more.")
        if self.side < PATCH or self.side % PATCH:
            raise TrainingError(f"The side must be a multiple of the patch, {PATCH} pixels.")


class Photos(Dataset[Tensor]):
    """`count` views of JPEG files: decoded, cropped at random, flipped, jittered; float32 [3, side, side]."""

    def __init__(self, files: Sequence[Path], count: int, side: int) -> None:
        self.files, self.count, self.side = files, count, side

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        rng = random.Random(SEED + index)  # noqa: S311
        with Image.open(self.files[index % len(self.files)]) as file:
            photo = file.convert("RGB")
        edge = min(photo.size) * math.sqrt(rng.uniform(*CROP_AREA))
        left, top = rng.uniform(0, photo.width - edge), rng.uniform(0, photo.height - edge)
        box = (left, top, left + edge, top + edge)
        view = photo.resize((self.side, self.side), Image.Resampling.BICUBIC, box=box)
        if rng.random() < 0.5:
            view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        for kind in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
            view = kind(view).enhance(rng.uniform(1 - JITTER, 1 + JITTER))
        return torch.from_numpy(np.asarray(view, np.float32).transpose(2, 0, 1) / 127.5 - 1)


def lesson(
    job: Job, progress: Callable[[str], None], photos: Path = PHOTOS, runs: Path | None = None
) -> dict[str, Any]:
    """Run the job with every number of workers, in turns; rows by number, with times in seconds and as ratios.

    `progress` is told what is run next. The timed runs are kept in `runs`, if given, as `WORKERS-ROUND`. Raises
    TrainingError for a job that cannot be run, a folder without JPEG files, or `runs` that is not empty.
    """
    job.check()
    files = sorted(photos.glob("*.jpg"))
    if not files:
        raise TrainingError(f"{photos.name} holds no .jpg files: name a folder of photos.")
    if runs and runs.exists() and any(runs.iterdir()):
        raise TrainingError(f"{runs.name} is not empty: name a new folder for the runs.")
    found: dict[int, list[Step]] = {workers: [] for workers in job.workers}
    with tempfile.TemporaryDirectory() as scratch:
        enlarged = list(_enlarged(files, job.photo, Path(scratch)))
        for turn in range(job.rounds):
            for workers in job.workers:
                progress(f"round {turn + 1} of {job.rounds}, {workers} workers")
                folder = (runs or Path(scratch)) / f"{workers}-{turn + 1}"
                found[workers] += _run(job, workers, enlarged, folder)
    rows = [_row(workers, steps) for workers, steps in found.items()]
    best = min(row["step_s"] for row in rows)
    for row in rows:
        row["ratio"] = row["step_s"] / best
    cores = len(os.sched_getaffinity(0))
    return {"cores": cores, "threads": torch.get_num_threads(), "job": _settings(job), "rows": rows}


def _enlarged(files: Sequence[Path], side: int, folder: Path) -> Iterator[Path]:
    """Photos of the size that cameras and data sets have, so that decoding costs what it does there."""
    for file in files:
        with Image.open(file) as photo:
            photo.convert("RGB").resize((side, side), Image.Resampling.BICUBIC).save(folder / file.name, quality=90)
        yield folder / file.name


def _run(job: Job, workers: int, files: Sequence[Path], folder: Path) -> list[Step]:
    """Train with a number of workers; the timed steps."""
    torch.manual_seed(SEED)
    model = _network(job)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    # As in the middle of a long epoch: what many workers fetched before the first step is used up when time is taken,
    # and there is always more to load.
    ahead = PREFETCH * max(job.workers)
    begin = max(WARM_UP_STEPS, ahead)
    photos = Photos(files, job.batch * (begin + job.steps + ahead), job.side)
    loader = DataLoader(photos, job.batch, num_workers=workers, prefetch_factor=PREFETCH if workers else None)
    RunFacts.here(torch.device("cpu"), workers=workers).write(folder)
    with Sampler(folder), StepClock(folder) as clock:
        for batch in islice(timed(clock, loader), begin + job.steps):
            _step(model, optimizer, batch, clock)
    return read_run(folder).steps[begin:]


def _network(job: Job) -> ViTForImageClassification:
    config = ViTConfig(
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=job.layers,
        num_attention_heads=HEADS,
        image_size=job.side,
        patch_size=PATCH,
        num_labels=CLASSES,
    )
    return ViTForImageClassification(config).train()


def _step(model: ViTForImageClassification, optimizer: torch.optim.Optimizer, batch: Tensor, clock: Clock) -> None:
    with clock.phase("forward"):
        labels = torch.arange(len(batch)) % CLASSES
        loss = functional.cross_entropy(model(batch).logits, labels)
    with clock.phase("backward"):
        loss.backward()  # type: ignore[no-untyped-call]
    with clock.phase("optimizer"):
        optimizer.step()
        optimizer.zero_grad()
    clock.step(len(batch))


def _row(workers: int, steps: Sequence[Step]) -> dict[str, Any]:
    times = [step.seconds for step in steps]
    backward = spread([step.phases["backward"] for step in steps])
    return {
        "workers": workers,
        "steps": len(steps),
        "step_s": statistics.fmean(times),
        "p95_s": spread(times)["p95_s"],
        "cv": spread(times)["cv"],
        "backward_cv": backward["cv"],
        "phases": {name: statistics.fmean(step.phases[name] for step in steps) for name in ROWS},
    }


def _settings(job: Job) -> dict[str, Any]:
    names = ("rounds", "steps", "batch", "side", "photo", "layers")
    return {name: getattr(job, name) for name in names}
