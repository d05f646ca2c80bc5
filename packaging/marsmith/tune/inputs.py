"""What the model is asked while it is tuned. Nothing of it is printed or logged."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from marsmith.errors import ClientError, TuneError
from marsmith.evidence import golden
from marsmith.ground.files import is_dir, is_file
from marsmith.ground.untrusted import printable
from marsmith.load.loops import Body
from marsmith.recipe.recipe import Recipe
from marsmith.rest.client import CONCURRENCY, Client, body_of, text_lines

# Images of a directory are held in memory: as many as this takes.
MAX_BYTES = 256_000_000


@dataclass(frozen=True, slots=True)
class Inputs:
    """The requests that the clients send in turn, the name of each, which never shows a text, and what they are."""

    bodies: list[Body]
    names: list[str]
    what: str

    def check(self, client: Client, model: str, at_once: int) -> None:
        """Ask each once. Raises TuneError for the first that is refused: it would spoil every setting."""
        pool = ThreadPoolExecutor(min(CONCURRENCY, at_once))
        try:
            answers = pool.map(lambda body: client.send(model, *body), self.bodies)
            for name, answer in zip(self.names, answers, strict=True):
                if not answer.ok:
                    reason = printable(answer.message).rstrip(".")
                    raise TuneError(
                        f"{name} is answered {answer.status or 'not at all'} ({reason}), "
                        "and only what is answered can be measured: leave it out, or change it."
                    )
        finally:
            pool.shutdown(cancel_futures=True)


def inputs(recipe: Recipe, source: Path | None = None) -> Inputs:
    """The lines of a text file or the images of a directory, else the recipe's golden requests.

    Raises TuneError for a source that does not suit the recipe's task or holds nothing, and RecipeError.
    """
    if source is None:
        numbered = enumerate(golden.questions(recipe), 1)
        named = {f"Golden request {number} ({one.name})": one.payload() for number, one in numbered}
        what = f"{len(named)} golden requests"
    elif is_dir(source):
        named = _images(recipe, source)
        what = f"{len(named)} images of {source}"
    else:
        named = _texts(recipe, source)
        what = f"{len(named)} texts of {source}"
    if not named:
        raise TuneError(f"Nothing can be asked: {what}. Name a text file or a directory of images with --inputs.")
    return Inputs(list(named.values()), list(named), what)


def _texts(recipe: Recipe, file: Path) -> dict[str, Body]:
    if recipe.kind.section == "image":
        raise TuneError(f"The {recipe.task} task reads images: name a directory of them with --inputs, not {file}.")
    try:
        numbered = enumerate(text_lines(file), 1)
        return {f"Line {number} of {file}": body_of(line) for number, line in numbered if line.strip()}
    except ClientError as error:
        raise TuneError(str(error)) from None


def _images(recipe: Recipe, directory: Path) -> dict[str, Body]:
    if recipe.kind.section == "text":
        raise TuneError(f"The {recipe.task} task reads texts: name a text file with --inputs, not {directory}.")
    found: dict[str, Body] = {}
    held = 0
    try:
        for file in sorted(directory.iterdir()):
            if held + (file.stat().st_size if is_file(file) else MAX_BYTES) > MAX_BYTES:
                continue
            body, content_type = body_of(file.read_bytes())
            if content_type.startswith("image/"):
                found[f"The image {file}"] = (body, content_type)
                held += len(body)
    except OSError as error:
        raise TuneError(f"The images of {directory} cannot be read: {error.strerror or error}.") from None
    return found
