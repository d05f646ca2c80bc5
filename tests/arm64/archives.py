"""The starters in every precision, as an x86-64 machine builds them and answers their golden requests."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from marsmith import replay
from marsmith.builder import build
from marsmith.recipe import AccuracyLimits, Recipe
from marsmith.serving import Precision
from tests.arm64.tools import ROOT

STARTERS = ("sentiment", "food")
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
# An emulator takes some seconds for a picture, and a minute in bf16; a worker asks them all before it is READY.
PICTURES = {"fp32": 3, "bf16": 1, "int8": 3}
RESPONSE_TIMEOUT_S = 300
# All of the food starter's labels, so that every score is compared.
EVERY_LABEL = 43


@dataclass(frozen=True, slots=True)
class Archive:
    """One archive, and what x86-64 answers to its golden requests, by their names."""

    starter: str
    precision: Precision
    path: Path
    answers: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The model's name at the server."""
        return self.path.stem


def archives(directory: Path) -> Iterator[Archive]:
    """Build each starter in each precision into a directory of the precision's name, and ask it."""
    for precision in PRECISIONS:
        for starter in STARTERS:
            path = build(changed(starter, precision, directory / "texts"), directory / precision).path
            outcomes = replay.in_worker(path)
            yield Archive(starter, precision, path, {one.name: one.prediction.body for one in outcomes})


def changed(starter: str, precision: Precision, texts: Path) -> Recipe:
    """The starter's recipe in another precision, under a name of its own; int8 is compared on its own samples."""
    recipe = Recipe.load(ROOT / "models" / starter)
    inputs = recipe.directory / "samples"
    samples = recipe.samples[: PICTURES[precision]]
    if starter == "sentiment":
        texts.write_text("".join(f"{sample.text}\n" for sample in recipe.samples), encoding="utf-8")
        inputs, samples = texts, recipe.samples
    return recipe.model_copy(
        update={
            "name": f"{starter}-{precision}",
            "precision": precision,
            "accuracy": AccuracyLimits(inputs=inputs) if precision == "int8" else None,
            "top_k": EVERY_LABEL,
            "samples": samples,
            "serving": recipe.serving.model_copy(update={"response_timeout_s": RESPONSE_TIMEOUT_S}),
        }
    )


def scores(body: Any) -> dict[str, float]:
    """Each label's probability in an answer."""
    return body["scores"] if "scores" in body else {dish["label"]: dish["score"] for dish in body["dishes"]}
