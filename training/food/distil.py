"""`distil`: teach a small network to answer as its teacher does."""

from __future__ import annotations

from typing import Annotated

import torch
import typer

from training.errors import TrainingError
from training.food import options as o
from training.food.augment import JITTER, Augmentation
from training.food.batches import Batches
from training.food.distributed import joined
from training.food.heads import start_heads
from training.food.learner import Learner
from training.food.loop import Plan
from training.food.networks import Classifier
from training.food.run_folder import RunFolder
from training.food.session import load, train
from training.food.student import SHAPES, from_checkpoint, from_shape, from_teacher
from training.food.teacher import Distillation, Teacher


def distil(
    teacher: Annotated[str, typer.Argument(help="The teacher's checkpoint folder or hub id.")],
    data: o.Data,
    out: o.Out,
    student: Annotated[str | None, typer.Option(help="Start from this checkpoint folder or hub id.")] = None,
    new_head: Annotated[bool, typer.Option(help="Give it a head for the teacher's labels.")] = False,
    shape: Annotated[
        str | None, typer.Option(help=f"Start from random weights: {', '.join(SHAPES)}, a config folder, timm's name.")
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Start from the teacher's first so many layers.")] = None,
    mlp_width: Annotated[int | None, typer.Option(help="With only so many neurons of each MLP.")] = None,
    epochs: o.Epochs = 5,
    batch: o.BatchSize = 32,
    lr: o.Rate = 2e-4,
    temperature: Annotated[float, typer.Option(min=0.01, help="What softens both answers.")] = 2.0,
    hard: Annotated[float, typer.Option(min=0, max=1, help="Weight of the labels; the teacher has the rest.")] = 0.3,
    feature_weight: Annotated[float, typer.Option(min=0, help="Weight of the distance of the last features.")] = 0.0,
    frozen: o.Frozen = 0,
    layer_decay: o.LayerDecay = 1.0,
    relative: o.Relative = False,
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
    dtype: o.Dtype = "fp16",
    resume: o.Resume = False,
    checkpoint_steps: o.CheckpointSteps = 0,
    log_steps: o.LogSteps = 10,
    as_json: o.Json = False,
) -> None:
    """Teach a student to answer as TEACHER does on the same views of DATA's photos, labelled or not, into OUT."""
    if threads:
        torch.set_num_threads(threads)
    with joined(backend) as processes:
        folder = RunFolder(out)
        if processes.first:
            folder.open(resume=resume)
        processes.wait()
        torch.manual_seed(seed)
        master = Classifier.read(teacher).frozen()
        side = o.stored_side(master.see.size, stored)
        found = load(data, master, side, "the teacher")
        if sum(source is not None for source in (student, shape, layers)) != 1:
            raise TrainingError("Tell where the student comes from by one of --student, --shape and --layers.")
        if student is not None:
            pupil = from_checkpoint(student, master, new_head=new_head)
        elif shape is not None:
            pupil = from_shape(shape, master)
        else:
            pupil = from_teacher(master, found.train, layers or 0, mlp_width)
        if head_start and shape is None and found.train.labelled:
            start_heads(pupil, found.train, bf16=bf16)
        how = Augmentation(
            seed, max(pupil.see.size, master.see.size), jitter, randaugment, magnitude, mixup, cutmix
        )
        batches = Batches(found.train, how, batch, accumulate, processes)
        objective = Distillation(
            Teacher(master, processes.device), temperature, hard if found.train.labelled else 0.0, feature_weight
        )
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
        learner = Learner(pupil.model, objective.width)
        train(pupil, learner, found, batches, objective, plan, folder, o.DTYPES[dtype], as_json=as_json)


