"""`measure` and `probe`: scores of checkpoints, and of what needs no training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import torch
import typer

from training.errors import TrainingError
from training.food import options as o
from training.food.evaluate import Accuracy, aligned, forward_seconds, score
from training.food.heads import features, linear_head
from training.food.networks import Classifier
from training.food.photos import need_photos

PROBE_C = (0.01, 0.1, 1.0, 10.0)  # of the baseline: val chooses
COLUMNS = ("checkpoint", "parameters", "bytes", "top-1", "top-5", "macro recall", "time")
Split = Annotated[Literal["train", "val", "test"], typer.Option(help="Which photos.")]


def measure(
    data: o.Data,
    checkpoints: Annotated[list[str], typer.Argument(help="Checkpoint folders or hub ids.")],
    split: Split = "test",
    threads: o.Threads = None,
    as_json: o.Json = False,
) -> None:
    """Score checkpoints as stored, in fp32, on whole photos; time is relative to the first checkpoint's."""
    if threads:
        torch.set_num_threads(threads)
    rows, first = list[dict[str, str | int | float]](), 0.0
    for name in checkpoints:
        classifier = Classifier.read(name)
        photos = aligned(need_photos(data, split, classifier.see.size), classifier.labels, name)
        if not photos.labelled:
            raise TrainingError(f"The {split} photos of {data} have no labels to score against.")
        found, seconds = score(classifier.model, classifier.see, photos), forward_seconds(classifier)
        first = first or seconds
        weights = Path(name) / "model.safetensors"
        size = weights.stat().st_size if weights.is_file() else 0
        parameters = classifier.model.num_parameters()
        figures = (found.top1, found.top5, found.macro_recall, seconds / first)
        rows.append(dict(zip(COLUMNS, (Path(name).name, parameters, size, *figures), strict=True)))
    if as_json:
        typer.echo(json.dumps(rows))
        return
    typer.echo(f"| {' | '.join(COLUMNS)} |\n|---|" + "---:|" * (len(COLUMNS) - 1))
    for row in rows:
        cells = [
            f"{cell:.4f}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell
            for cell in row.values()
        ]
        typer.echo(f"| {' | '.join(cells)} |")


def probe(
    base: Annotated[str, typer.Argument(help="A checkpoint folder or hub id.")],
    data: o.Data,
    threads: o.Threads = None,
    as_json: o.Json = False,
) -> None:
    """Score two baselines on test: the commonest class, and logistic regression on the frozen BASE."""
    if threads:
        torch.set_num_threads(threads)
    classifier = Classifier.read(base)
    splits = {name: need_photos(data, name, classifier.see.size) for name in ("train", "val", "test")}
    classes = splits["train"].classes
    if not classes:
        raise TrainingError(f"The photos of {data} have no labels to score against.")
    splits = {name: aligned(split, classes, "the training photos") for name, split in splits.items()}
    labels = {name: split.labels for name, split in splits.items()}
    found = {name: features(classifier, split) for name, split in splits.items()}
    heads = [linear_head(found["train"], labels["train"].numpy(), c) for c in PROBE_C]
    best = max(heads, key=lambda head: head.score(found["val"], labels["val"].numpy()))
    answers = torch.full((len(labels["test"]), len(classes)), -torch.inf)
    decided = torch.from_numpy(best.decision_function(found["test"])).float()
    answers[:, torch.from_numpy(best.classes_)] = decided if decided.dim() == 2 else torch.stack([-decided, decided], 1)
    common = torch.bincount(labels["train"], minlength=len(classes)).float().expand(len(labels["test"]), -1)
    rows = {
        "commonest class": Accuracy.of(common, labels["test"]),
        f"frozen + logistic regression, C={best.C}": Accuracy.of(answers, labels["test"]),
    }
    if as_json:
        typer.echo(json.dumps({title: vars_of(accuracy) for title, accuracy in rows.items()}))
        return
    for title, accuracy in rows.items():
        typer.echo(f"{title}: {accuracy}")


def vars_of(accuracy: Accuracy) -> dict[str, float]:
    """Return the figures by name."""
    return {"top1": accuracy.top1, "top5": accuracy.top5, "macro_recall": accuracy.macro_recall}
