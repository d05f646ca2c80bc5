"""`marsmith demo`: build the starter archives, serve them, ask them, and say whether the answers are right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from marsmith.build import Built, build
from marsmith.client import Client, Prediction
from marsmith.errors import RecipeError
from marsmith.recipe import RECIPE_FILE, Recipe
from marsmith.server import Server

STARTERS = ("sentiment", "food")


@dataclass(frozen=True, slots=True)
class Answer:
    """One sample, what the server said, and whether the label is the recipe's."""

    model: str
    sample: str
    expected: str
    prediction: Prediction

    @property
    def right(self) -> bool:
        """Whether the answer has the label that the recipe expects."""
        body = self.prediction.body
        if not self.prediction.ok:
            return False
        best = body["dishes"][0] if "dishes" in body else body
        return bool(best["label"] == self.expected)


def build_starters(models: Path, store: Path, progress: Callable[[str], None]) -> Iterator[Built]:
    """Build both starter archives into `store`. Raises MarsmithError."""
    if not all((models / name / RECIPE_FILE).is_file() for name in STARTERS):
        raise RecipeError(
            f"{models} does not hold the starter checkpoints: run the demo from a clone of Marsmith, or name them with --models."
        )
    for name in STARTERS:
        yield build(models / name, store, lambda step, name=name: progress(f"{name}: {step}"))  # type: ignore[misc]


def ask(models: Path, server: Server) -> Iterator[Answer]:
    """Send every sample of both recipes to the server."""
    client = Client(server.ports.url, server.headers())
    for name in STARTERS:
        recipe = Recipe.load(models / name)
        inputs = [
            sample.text if sample.text is not None else recipe.directory / str(sample.image) for sample in recipe.samples
        ]
        for sample, one, prediction in zip(
            recipe.samples, inputs, client.predict_many(recipe.name, inputs), strict=True
        ):
            shown = one.name if isinstance(one, Path) else one
            yield Answer(recipe.name, shown, sample.expect, prediction)
