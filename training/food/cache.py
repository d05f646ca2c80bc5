"""A teacher's answers on disk: one pass over some views of each photo, mapped into memory by every later epoch.

A view is a pure function of the seed, the photo and which of its kept views it is, so the file needs no pictures.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from training.errors import TrainingError
from training.food.batches import Batch, Batches
from training.food.photos import Photos, reserve
from training.food.progress import track
from training.food.run_folder import write_whole
from training.food.teacher import Teacher, Wanted

HASHED_PHOTOS = 256
VALUES, KEY = "teacher.npy", "teacher.json"


@dataclass(frozen=True, slots=True)
class CachedTeacher:
    """Logits float32 [K, N, L] of K views of each of N photos."""

    values: NDArray[np.float32]

    def ask(self, batch: Batch, *, features: int) -> Wanted:
        """Return the logits [B, L] of a batch's views. Raises TrainingError when features are asked for."""
        if features:
            raise TrainingError("Only logits are kept on disk: leave out --cached-views, or --feature-weight.")
        answers = torch.from_numpy(self.values[batch.epoch % len(self.values), batch.items.numpy()])
        return Wanted(answers.to(batch.views.device), [])


def fill(folder: Path, teacher: Teacher, batches: Batches, *, bf16: bool) -> CachedTeacher:
    """Answer all kept views once, each process its share, into `folder`; what is there of the same kind is used.

    Raises TrainingError when the views are mixed (their partners differ from
    epoch to epoch, so no view comes back).
    """
    if batches.how.mixup or batches.how.cutmix:
        raise TrainingError("Mixed views never come back: leave out --cached-views, or --mixup and --cutmix.")
    processes, count = batches.processes, len(batches.photos)
    shape = (batches.kept, count, len(teacher.classifier.labels))
    file, note = folder / VALUES, folder / KEY
    key = {"sha256": fingerprint(teacher, batches.photos), "bf16": bf16, "shape": shape, **asdict(batches.how)}
    wanted = json.dumps(key, sort_keys=True)
    if not note.is_file() or note.read_text(encoding="utf-8") != wanted:
        new = folder / f".{VALUES}.new"
        if processes.first:
            folder.mkdir(parents=True, exist_ok=True)
            np.lib.format.open_memmap(new, "w+", np.float32, shape).flush()
            reserve(new)
        processes.wait()
        _answer(np.load(new, mmap_mode="r+"), teacher, batches, bf16=bf16)
        processes.wait()
        if processes.first:
            new.replace(file)
            write_whole(note, wanted)
        processes.wait()
    return CachedTeacher(np.load(file, mmap_mode="r"))


def fingerprint(teacher: Teacher, photos: Photos) -> str:
    """Return a digest of the teacher's weights and of the photos."""
    digest = hashlib.sha256()
    for name, value in teacher.classifier.model.state_dict().items():
        digest.update(name.encode() + value.cpu().numpy().tobytes())
    for items in torch.split(torch.arange(len(photos)), HASHED_PHOTOS):
        digest.update(photos.pixels(items).numpy().tobytes())
    return digest.hexdigest()


def _answer(values: NDArray[np.float32], teacher: Teacher, batches: Batches, *, bf16: bool) -> None:
    """Write this process's share: the photos rank, rank + world, ... of every view."""
    processes, size = batches.processes, max(1, batches.size // batches.processes.world)
    mine = torch.split(torch.arange(processes.rank, len(batches.photos), processes.world), size)
    jobs = [(view, items) for view in range(batches.kept) for items in mine]
    for view, items in track(jobs, "ask the teacher", len(jobs)):
        seen = batches.batch(items, view, 0).views.to(processes.device)
        with torch.autocast(processes.device.type, torch.bfloat16, enabled=bf16):
            values[view, items.numpy()] = teacher.answer(seen)[0].cpu().numpy()
    if isinstance(values, np.memmap):
        values.flush()
