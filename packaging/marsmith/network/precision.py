"""A network in the recipe's precision, and how far that is from the checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil, floor
from pathlib import Path

import numpy as np

from marsmith.errors import ExportError, RecipeError
from marsmith.evidence.accuracy import Accuracy
from marsmith.ground.progress import Progress
from marsmith.ground.serving import Precision
from marsmith.network.choose import Network
from marsmith.network.export import GRAPH, session
from marsmith.network.int8 import quantise
from marsmith.network.program import Run
from marsmith.network.reference import Reference
from marsmith.recipe.calibration import calibration
from marsmith.recipe.recipe import Recipe

# Inputs between two words about how far it is.
PROGRESS_EVERY = 50
# Of the figures in accuracy.json, rounded to the worse side: further digits are another CPU's.
DECIMALS = 4


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


def compare(exact: Run, reduced: Run, precision: Precision, batches: Iterable[Mapping[str, np.ndarray]]) -> Accuracy:
    """What the network of reduced precision makes of at least one batch, beside the exact one."""
    agreeing = inputs = 0
    change = 0.0
    for feeds in batches:
        expected, got = _probabilities(exact(feeds)), _probabilities(reduced(feeds))
        # Of logits that are not finite, every probability is none, which agrees with nothing.
        agreeing += int(((expected.argmax(-1) == got.argmax(-1)) & np.isfinite(got).all(-1)).sum())
        inputs += len(expected)
        change = max(change, float(np.nan_to_num(np.abs(expected - got), nan=1.0).max()))
    return Accuracy(
        precision=precision,
        inputs=inputs,
        label_agreement=floor(agreeing / inputs * 10**DECIMALS) / 10**DECIMALS,
        max_probability_change=ceil(change * 10**DECIMALS) / 10**DECIMALS,
    )


def _probabilities(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    shares: np.ndarray = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return shares
