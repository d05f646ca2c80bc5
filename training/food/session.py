"""What `teach` and `distil` do alike: photos, plan and folder in, a stored checkpoint and its scores out."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import typer
from transformers import PreTrainedModel

from training.errors import TrainingError
from training.food import batch_size, checkpoint
from training.food.batches import Batch, Batches
from training.food.distributed import Backend, Processes, joined
from training.food.evaluate import aligned, score
from training.food.learner import Learner
from training.food.loop import Objective, Plan, Trainer
from training.food.networks import Classifier
from training.food.photos import Photos, load_photos, need_photos
from training.food.run_folder import RunFolder
from training.food.timing import Timing


@dataclass(frozen=True, slots=True)
class Session:
    """A run of `processes` into `folder`; `dtype` is how weights are stored, `timing` where its time is recorded."""

    processes: Processes
    folder: RunFolder
    dtype: torch.dtype
    as_json: bool = False
    timing: Timing = field(default_factory=Timing)

    @property
    def goes_on(self) -> bool:
        """Whether there is a checkpoint to go on from, whose weights replace those that a run begins with."""
        return bool(checkpoint.found(self.folder.states))


@contextmanager
def opened(
    out: Path,
    dtype: torch.dtype,
    backend: Backend | None,
    threads: int | None,
    *,
    resume: bool,
    as_json: bool,
    timings: Path | None = None,
) -> Iterator[Session]:
    """Join the processes and open the folder. Raises TrainingError as `joined` and `RunFolder.check` do."""
    if threads:
        torch.set_num_threads(threads)
    folder = RunFolder(out)
    with joined(backend) as processes:
        folder.check(resume=resume)
        processes.wait()
        if processes.first:
            out.mkdir(parents=True, exist_ok=True)
        yield Session(processes, folder, dtype, as_json, Timing(timings))


@dataclass(frozen=True, slots=True)
class Data:
    """What is trained on, larger than the network sees, and what each epoch is scored on, if anything."""

    train: Photos
    val: Photos | None


def load(data: str, classifier: Classifier, side: int, whose: str, processes: Processes) -> Data:
    """Read train at `side` pixels and val at the network's size, with the ids of the network's labels.

    Raises TrainingError when labels differ, or the training photos are all of one class.
    """
    train = need_photos(data, "train", side, processes)
    val = load_photos(data, "val", classifier.see.size, processes)
    if train.classes:
        train = aligned(train, classifier.labels, whose)
        if len(torch.unique(train.labels)) == 1:
            raise TrainingError("All training photos are of one class: a classifier needs two or more.")
    if val is not None:
        val = aligned(val, classifier.labels, whose) if val.classes else None
    return Data(train, val)


def with_largest_batch(batches: Batches, learner: Learner, objective: Objective, memory: int | None) -> Batches:
    """Return `batches` with the largest size that fits every process; `memory` is a CPU's limit in bytes.

    What is tried is a whole step of a copy: forward, backward and the optimizer with its state.
    """
    processes, multiple = batches.processes, 2 if batches.how.mixup or batches.how.cutmix else 1

    def step(size: int) -> None:
        trial = copy.deepcopy(learner).to(processes.device).train()
        optimizer = torch.optim.AdamW([p for p in trial.parameters() if p.requires_grad], lr=0.0)
        side = batches.how.size
        views = torch.zeros(size, 3, side, side, device=processes.device)
        labels = torch.zeros(size, dtype=torch.int64, device=processes.device)
        items = torch.zeros(size, dtype=torch.int64)
        objective(trial(views), Batch(0, items, views, labels, None)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    limit = len(batches.photos) // processes.world
    found = batch_size.find(step, multiple, limit, processes.device, memory)
    return replace(batches, size=min(processes.gather(found)) * processes.world, accumulate=1)


def train(
    session: Session,
    classifier: Classifier,
    learner: Learner,
    val: Photos | None,
    batches: Batches,
    objective: Objective,
    plan: Plan,
) -> None:
    """Train, score every epoch on `val`, store the last state, and say how it went."""
    start = time.monotonic()

    def epoch_end(model: PreTrainedModel) -> dict[str, Any]:
        figures = {"minutes": (time.monotonic() - start) / 60}
        if val is None:
            return figures
        return {f"val_{name}": value for name, value in asdict(score(model, classifier.see, val)).items()} | figures

    def keep(model: PreTrainedModel) -> None:
        session.folder.export(classifier, model, session.dtype)

    trainer = Trainer(
        learner, classifier.see, batches, objective, plan, session.folder, epoch_end, keep, session.timing
    )
    figures = trainer.run()
    if not session.processes.first:
        return
    report = {
        **figures,
        "parameters": classifier.model.num_parameters(),
        "labels": len(classifier.labels),
        "photos": len(batches.photos),
        "skipped": list(batches.photos.skipped),
        "batch": batches.size,
        "processes": session.processes.world,
        **asdict(plan),
        "augmentation": asdict(batches.how),
    }
    session.folder.finish(report)
    done = {"out": str(session.folder.path), **report}
    typer.echo(json.dumps(done) if session.as_json else f"The checkpoint is in {session.folder.path}.")
