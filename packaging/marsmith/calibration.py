"""What a network of reduced precision is compared on with the checkpoint: the inputs of a recipe's table [accuracy]."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from marsmith.errors import ArchiveError, RecipeError
from marsmith.paths import is_dir, is_file
from marsmith.recipe import Recipe
from marsmith.sources import walk


def calibration_files(recipe: Recipe) -> list[Path]:
    """The files of the inputs, in the order of their names. Raises RecipeError where there are none."""
    if recipe.accuracy is None:
        return []
    path = recipe.directory / recipe.accuracy.inputs
    images = recipe.kind.section == "image"
    if not (is_dir(path) if images else is_file(path)):
        kind = "directory of images" if images else "file with one text a line"
        raise RecipeError(f"There is no {kind} at {path}: correct accuracy.inputs, or put it there.")
    if not images:
        return [path]
    try:
        files = [file for _, file in sorted(walk(path))]
    except (ArchiveError, OSError) as error:
        raise RecipeError(f"The images of accuracy.inputs cannot be read: {error}") from None
    if not files:
        raise RecipeError(f"There is no image in {path}: put some there, of the kind that the archive will be sent.")
    return files


def calibration(recipe: Recipe) -> Iterator[str | bytes]:
    """Each text, empty lines left out, or the content of each image file. Raises RecipeError for unreadable ones."""
    for file in calibration_files(recipe):
        try:
            content = file.read_bytes()
            lines = [] if recipe.kind.section == "image" else content.decode("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise RecipeError(f"The file {file} of accuracy.inputs cannot be read as it should be: {error}.") from None
        if recipe.kind.section == "image":
            yield content
            continue
        texts = [line for line in lines if line.strip()]
        if not texts:
            raise RecipeError(
                f"There is no text in {file}: write one a line, like those that the archive will be sent."
            )
        yield from texts
