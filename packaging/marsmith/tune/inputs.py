"""What the model is asked while it is tuned. Nothing of it is printed or logged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from marsmith import golden
from marsmith.client import body_of
from marsmith.errors import ClientError, TuneError
from marsmith.paths import is_dir, is_file
from marsmith.predict import lines
from marsmith.recipe import Recipe
from marsmith.tune.load import Body

# Images of a directory are held in memory: as many as this takes.
MAX_BYTES = 256_000_000


@dataclass(frozen=True, slots=True)
class Inputs:
    """The requests that the clients send in turn, and what they are."""

    bodies: list[Body]
    what: str


def inputs(recipe: Recipe, source: Path | None = None) -> Inputs:
    """The lines of a text file or the images of a directory, else the recipe's golden requests.

    Raises TuneError for a source that does not suit the recipe's task or holds nothing, and RecipeError.
    """
    if source is None:
        bodies = [question.payload() for question in golden.questions(recipe)]
        what = f"{len(bodies)} golden requests"
    elif is_dir(source):
        bodies = _images(recipe, source)
        what = f"{len(bodies)} images of {source}"
    else:
        bodies = _texts(recipe, source)
        what = f"{len(bodies)} texts of {source}"
    if not bodies:
        raise TuneError(f"Nothing can be asked: {what}. Name a text file or a directory of images with --inputs.")
    return Inputs(bodies, what)


def _texts(recipe: Recipe, file: Path) -> list[Body]:
    if recipe.kind.section == "image":
        raise TuneError(f"The {recipe.task} task reads images: name a directory of them with --inputs, not {file}.")
    try:
        return [body_of(line) for line in lines(file) if line.strip()]
    except ClientError as error:
        raise TuneError(str(error)) from None


def _images(recipe: Recipe, directory: Path) -> list[Body]:
    if recipe.kind.section == "text":
        raise TuneError(f"The {recipe.task} task reads texts: name a text file with --inputs, not {directory}.")
    found: list[Body] = []
    held = 0
    try:
        for file in sorted(directory.iterdir()):
            if held + (file.stat().st_size if is_file(file) else MAX_BYTES) > MAX_BYTES:
                continue
            body, content_type = body_of(file.read_bytes())
            if content_type.startswith("image/"):
                found.append((body, content_type))
                held += len(body)
    except OSError as error:
        raise TuneError(f"The images of {directory} cannot be read: {error.strerror or error}.") from None
    return found
