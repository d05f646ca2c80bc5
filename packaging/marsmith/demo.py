"""`marsmith demo`: build the starter archives, serve them, ask them, and say whether the answers are right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from marsmith.builder import Built, build
from marsmith.errors import RecipeError, ServerError
from marsmith.ground.progress import Progress
from marsmith.recipe.recipe import RECIPE_FILE, Recipe
from marsmith.rest.client import Client, Prediction
from marsmith.torchserve.server import Server

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
        best = body["dishes"][0] if body.get("dishes") else body
        return bool(best.get("label") == self.expected)


def build_starters(models: Path, store: Path, progress: Progress) -> Iterator[Built]:
    """Build both starter archives into `store`. Raises MarsmithError."""
    if not all((models / name / RECIPE_FILE).is_file() for name in STARTERS):
        raise RecipeError(
            f"{models} does not hold the starter checkpoints: "
            "run the demo from a clone of Marsmith, or name them with --models."
        )
    for name in STARTERS:
        yield build(models / name, store, lambda step, name=name: progress(f"{name}: {step}"))  # type: ignore[misc]


def ask(models: Path, server: Server) -> Iterator[Answer]:
    """Send every sample with an expected label of both recipes to the server."""
    client = Client(server.ports.url, server.headers())
    for name in STARTERS:
        recipe = Recipe.load(models / name)
        samples = [(sample, sample.expect) for sample in recipe.samples if isinstance(sample.expect, str)]
        inputs = [
            sample.text if sample.text is not None else recipe.directory / str(sample.image) for sample, _ in samples
        ]
        predictions = client.predict_many(recipe.name, inputs)
        for (_, expected), one, prediction in zip(samples, inputs, predictions, strict=True):
            shown = one.name if isinstance(one, Path) else one
            yield Answer(recipe.name, shown, expected, prediction)


def check(answers: list[Answer]) -> None:
    """Raise ServerError unless there are answers and each is right."""
    wrong = [one for one in answers if not one.right]
    if wrong or not answers:
        raise ServerError(f"{len(wrong)} of {len(answers)} answers are not what the recipes expect.")


def next_steps(models: Path, server: Server) -> str:
    """What to try while the server runs."""
    url = server.ports.url
    photos = (sample.image for sample in Recipe.load(models / "food").samples if sample.image)
    photo = next(photos, Path("photo.jpg"))
    return (
        "\nTry next, in another terminal:\n"
        "  curl -H 'Content-Type: application/json' -d '{\"text\": \"What a lovely day!\"}' "
        f"{url}/predictions/sentiment\n"
        f"  curl -T {models / 'food' / photo} {url}/predictions/food\n"
        f"  marsmith predict food {models / 'food' / photo.parent}/* --url {url}\n"
    )
