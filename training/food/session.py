"""What `teach` and `distil` do alike: data, plan and folder in, a stored checkpoint and its scores out."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
import typer
from transformers import PreTrainedModel

from training.errors import TrainingError
from training.food.batches import Batches
from training.food.clock import Clock, NoClock
from training.food.evaluate import aligned, score
from training.food.learner import Learner
from training.food.loop import Objective, Plan, Trainer
from training.food.networks import Classifier
from training.food.photos import Photos, load_photos, need_photos
from training.food.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class Data:
    """What is trained on, larger than the network sees, and what each epoch is scored on, if anything."""

    train: Photos
    val: Photos | None


def load(data: str, classifier: Classifier, side: int, whose: str) -> Data:
    """Read train at `side` pixels and val at the network's size, with the ids of the network's labels.

    Raises TrainingError when labels differ, or the training photos are all of one class.
    """
    train, val = need_photos(data, "train", side), load_photos(data, "val", classifier.see.size)
    if train.classes:
        train = aligned(train, classifier.labels, whose)
        if len(train.labels.unique()) == 1:
            raise TrainingError("All training photos are of one class: a classifier needs two or more.")
    if val is not None:
        val = aligned(val, classifier.labels, whose) if val.classes else None
    return Data(train, val)


def train(
    classifier: Classifier,
    learner: Learner,
    data: Data,
    batches: Batches,
    objective: Objective,
    plan: Plan,
    folder: RunFolder,
    dtype: torch.dtype,
    clock: Clock | None = None,
    *,
    as_json: bool = False,
) -> None:
    """Train, score every epoch on val, store the last state, and say how it went."""
    start = time.monotonic()

    def epoch_end(model: PreTrainedModel, _: int) -> dict[str, Any]:
        scores = {f"val_{name}": value for name, value in asdict(score(model, classifier.see, data.val)).items()}
        return scores | {"minutes": (time.monotonic() - start) / 60}

    def keep(model: PreTrainedModel) -> None:
        folder.export(classifier, model, dtype)

    def no_val(_: PreTrainedModel, __: int) -> dict[str, Any]:
        return {"minutes": (time.monotonic() - start) / 60}

    end = no_val if data.val is None else epoch_end
    trainer = Trainer(learner, classifier.see, batches, objective, plan, folder, end, keep, clock or NoClock())
    figures = trainer.run()
    if not batches.processes.first:
        return
    report = {
        **figures,
        "parameters": classifier.model.num_parameters(),
        "labels": len(classifier.labels),
        "photos": len(data.train),
        "skipped": list(data.train.skipped),
        "batch": batches.size,
        "processes": batches.processes.world,
        **asdict(plan),
        "augmentation": asdict(batches.how),
    }
    folder.finish(report)
    typer.echo(json.dumps({"out": str(folder.path), **report}) if as_json else f"The checkpoint is in {folder.path}.")


