"""A network in the recipe's precision, and how far that is from the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from marsmith.errors import ExportError, RecipeError
from marsmith.evidence.accuracy import Accuracy, compare
from marsmith.ground.progress import Progress
from marsmith.network.choose import Network
from marsmith.network.export import GRAPH, session
from marsmith.network.int8 import quantise
from marsmith.recipe.calibration import calibration
from marsmith.recipe.recipe import Recipe

# Inputs between two words about how far it is.
PROGRESS_EVERY = 50


class Reference(Protocol):
    """The checkpoint as Hugging Face runs it (reference.py)."""

    def feeds(self, body: str | bytes) -> Mapping[str, np.ndarray]:
        """The network's inputs for one text or image file. Raises RecipeError when it is none."""


def in_precision(
    recipe: Recipe, reference: Reference, network: Network, exact: Path, progress: Progress
) -> tuple[Path, Accuracy | None]:
    """The directory of the network to pack, and how accurate it is, where int8 was asked for.

    Otherwise it is the directory `exact`, where the network was written: bf16 is how the CPU multiplies, not what is
    packed. Raises ExportError for a network that cannot be quantised, RecipeError for inputs that cannot be used, and
    AccuracyError where the quantised one is further from the checkpoint than the recipe allows.
    """
    if recipe.precision != "int8" or recipe.accuracy is None:
        return exact, None
    if network.engine != "ONNX Runtime":
        raise ExportError(f'This network runs in {network.engine}, which has no int8 here: set precision = "fp32".')
    out = exact / recipe.precision
    out.mkdir()

    def inputs(what: str) -> Iterator[Mapping[str, np.ndarray]]:
        progress(what)
        for number, (name, body) in enumerate(calibration(recipe), 1):
            if number % PROGRESS_EVERY == 0:
                progress(f"{what} ({number} inputs)")
            try:
                feeds = reference.feeds(body)
            except RecipeError:
                raise RecipeError(f"Of accuracy.inputs, {name} cannot be read: take it out, or repair it.") from None
            yield feeds

    quantise(exact, out, inputs("quantising"))
    compared = inputs("comparing the quantised network with the checkpoint")
    accuracy = compare(session(exact / GRAPH), session(out / GRAPH), recipe.precision, compared)
    accuracy.require(recipe.accuracy)
    return out, accuracy
