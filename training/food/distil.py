"""`distil`: teach a small network to answer as its teacher does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from training.errors import TrainingError
from training.food import options as o
from training.food.augment import JITTER, Augmentation
from training.food.batches import Batches
from training.food.cache import fill
from training.food.heads import start_heads
from training.food.learner import Learner
from training.food.loop import Plan
from training.food.narrow import narrow
from training.food.networks import Classifier
from training.food.photos import spread
from training.food.preprocessing import whole
from training.food.session import load, opened, train, with_largest_batch
from training.food.student import SHAPES, from_checkpoint, from_shape, from_teacher
from training.food.teacher import Distillation, Teacher

FITTED_PHOTOS = 64  # that projections start from: thousands of tokens


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
    width: Annotated[
        int | None, typer.Option(help="Start from all the teacher's layers, narrowed to this width and refitted.")
    ] = None,
    mlp_width: Annotated[int | None, typer.Option(help="With only so many neurons of each MLP.")] = None,
    epochs: o.Epochs = 5,
    batch: o.BatchSize = 32,
    lr: o.Rate = 2e-4,
    temperature: Annotated[float, typer.Option(min=0.01, help="What softens both answers.")] = 2.0,
    hard: Annotated[float, typer.Option(min=0, max=1, help="Weight of the labels; the teacher has the rest.")] = 0.3,
    feature_weight: Annotated[float, typer.Option(min=0, help="Weight of the distance of the layers' features.")] = 0.0,
    cached_views: Annotated[
        int, typer.Option(min=0, help="Ask the teacher once about so many views of each photo, which take turns.")
    ] = 0,
    cache: Annotated[Path | None, typer.Option(help="Keep its answers in this folder, for other runs too.")] = None,
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
    find_batch_size: o.FindBatch = False,
    memory: o.Memory = None,
    zero: o.Zero = False,
    backend: o.BackendName = None,
    threads: o.Threads = None,
    loader_threads: o.LoaderThreads = 0,
    seed: o.Seed = 20,
    dtype: o.Dtype = "fp16",
    resume: o.Resume = False,
    checkpoint_steps: o.CheckpointSteps = 0,
    log_steps: o.LogSteps = 10,
    timings: o.Timings = None,
    as_json: o.Json = False,
) -> None:
    """Teach a student to answer as TEACHER does on the same views of DATA's photos, labelled or not, into OUT."""
    if sum(source is not None for source in (student, shape, layers, width)) != 1:
        raise TrainingError("Tell where the student comes from by one of --student, --shape, --layers and --width.")
    with opened(out, o.DTYPES[dtype], backend, threads, resume=resume, as_json=as_json, timings=timings) as session:
        torch.manual_seed(seed)
        processes = session.processes
        master = Classifier.read(teacher).frozen()
        photos = load(data, master, o.stored_side(master.see.size, stored), "the teacher", processes)
        if student is not None:
            pupil = from_checkpoint(student, master, new_head=new_head)
        elif shape is not None:
            pupil = from_shape(shape, master)
        elif width is not None:
            pupil = narrow(master, photos.train, width, mlp_width)
        else:
            pupil = from_teacher(master, photos.train, layers or 0, mlp_width)
        # What is drawn at random has no features to fit a head to, and what is narrowed has its head fitted.
        if head_start and shape is None and width is None and photos.train.labelled and not session.goes_on:
            start_heads(pupil, photos.train, bf16=bf16)
        learner = Learner(pupil.model, master.model if feature_weight else None)
        side = max(pupil.see.size, master.see.size)
        how = Augmentation(seed, side, jitter, randaugment, magnitude, mixup, cutmix)
        batches = Batches(photos.train, how, batch, accumulate, processes, cached_views)
        live = Teacher(master, processes.device)
        if feature_weight and not session.goes_on:
            seen = whole(photos.train.pixels(spread(len(photos.train), FITTED_PHOTOS)))
            learner.fit_projections(pupil.see(seen), live.answer(seen, features=len(learner.projections)).features)
        share = hard if photos.train.labelled else 0.0
        objective = Distillation(live.ask, temperature, share, feature_weight)
        if find_batch_size:
            batches = with_largest_batch(batches, learner, objective, o.in_bytes(memory))
        batches.check()
        if cached_views:
            remembered = fill(cache or session.folder.states, live, batches, bf16=bf16)
            objective = replace(objective, ask=remembered.ask)
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
        train(session, pupil, learner, photos.val, batches, objective, plan)
