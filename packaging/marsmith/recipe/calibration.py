"""What a network of reduced precision is compared on with the checkpoint: the inputs of a recipe's table [accuracy]."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from marsmith.errors import ArchiveError, RecipeError
from marsmith.ground.files import NotUtf8, is_dir, is_file, read_lines, read_regular
from marsmith.ground.limits import MAX_SAMPLE_BYTES
from marsmith.ground.placeholders import EMPTY, what_stands_at
from marsmith.mar.collect import walk
from marsmith.recipe.recipe import Recipe


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
    except (ArchiveError, OSError):
        raise RecipeError(f"The directory {path} of accuracy.inputs cannot be read, or has a link out of it.") from None
    if not files:
        raise RecipeError(f"There is no image in {path}: put some there, of the kind that the archive will be sent.")
    return files


def calibration(recipe: Recipe) -> Iterator[tuple[str, str | bytes]]:
    """What each input is called, and the text, empty lines left out, or the content of the image file.

    Raises RecipeError for a file that cannot be read.
    """
    for file in calibration_files(recipe):
        kind = what_stands_at(file)
        if kind and (kind is not EMPTY or recipe.kind.section == "image"):
            raise RecipeError(f"The file {file} of accuracy.inputs is {kind}.")
        try:
            if recipe.kind.section == "image":
                yield str(file), read_regular(file, MAX_SAMPLE_BYTES)
                continue
            texts = [(number, line) for number, line in enumerate(read_lines(file), 1) if line.strip()]
        except (OSError, NotUtf8) as error:
            reason = getattr(error, "strerror", None) or error
            raise RecipeError(f"The file {file} of accuracy.inputs cannot be read: {reason}.") from None
        if not texts:
            raise RecipeError(f"There is no text in {file}: write one a line, as the archive will be sent.")
        yield from ((f"line {number} of {file}", text) for number, text in texts)
