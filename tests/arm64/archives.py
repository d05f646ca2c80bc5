"""The starters in every precision, as an x86-64 machine builds them and answers their golden requests."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from marsmith import replay
from marsmith.builder import build
from marsmith.recipe import Recipe, recipe_file
from marsmith.serving import Precision
from tests.arm64.tools import ROOT

STARTERS = ("sentiment", "food")
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
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


def archives(store: Path) -> Iterator[Archive]:
    """Build each starter in each precision into `store`, and ask it."""
    texts = store.parent / "texts.txt"
    for starter in STARTERS:
        for precision in PRECISIONS:
            file = recipe_file(ROOT / "models" / starter)
            recipe = Recipe.parse(changed(file, precision, texts).encode(), file)
            if starter == "sentiment":
                texts.write_text("".join(f"{sample.text}\n" for sample in recipe.samples), encoding="utf-8")
            path = build(recipe, store).path
            outcomes = replay.in_worker(path)
            yield Archive(starter, precision, path, {one.name: one.prediction.body for one in outcomes})


def changed(file: Path, precision: Precision, texts: Path) -> str:
    """The recipe in another precision, under a name of its own; int8 is compared on the recipe's own samples."""
    toml = file.read_text(encoding="utf-8")
    starter = file.parent.name
    inputs = texts if starter == "sentiment" else file.parent / "samples"
    for before, after in (
        (f'\nname = "{starter}"\n', f'\nname = "{starter}-{precision}"\n'),
        ('\nprecision = "fp32"\n', f'\nprecision = "{precision}"\n'),
        ("\ntop_k = 5\n", f"\ntop_k = {EVERY_LABEL}\n"),
    ):
        toml = toml.replace(before, after)
    return f'{toml}\n[accuracy]\ninputs = "{inputs}"\n' if precision == "int8" else toml


def scores(body: Any) -> dict[str, float]:
    """Each label's probability in an answer."""
    return body["scores"] if "scores" in body else {dish["label"]: dish["score"] for dish in body["dishes"]}
