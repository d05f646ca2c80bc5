"""The members of an archive that its recipe alone decides, known before anything heavy is loaded."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from marsmith import manifest, mar
from marsmith.errors import ArchiveError, RecipeError
from marsmith.nutrition import read_table
from marsmith.recipe import Recipe
from marsmith.resources import handlers_tree
from marsmith.serving import dump_json
from marsmith.sources import walk

MODEL = PurePosixPath("model")


def planned(recipe: Recipe, source: str) -> dict[PurePosixPath, mar.Source]:
    """Code, configuration, requirements, manifest, nutrition and extra files; `source` names the checkpoint.

    Raises RecipeError for a file of the recipe that cannot be used.
    """
    return {
        **code(recipe),
        **nutrition(recipe),
        **{MODEL / name: file for name, file in extra_files(recipe).items()},
        PurePosixPath(manifest.CONFIG_FILE): manifest.model_config(recipe),
        PurePosixPath(manifest.REQUIREMENTS_FILE): manifest.requirements(recipe),
        PurePosixPath(mar.MANIFEST): manifest.manifest(recipe, source),
    }


def code(recipe: Recipe) -> dict[PurePosixPath, mar.Source]:
    """The handlers package, and at the archive's root, where TorchServe looks, the recipe's handler or the task's.

    Raises RecipeError for a handler that is no file.
    """
    tree = handlers_tree()
    package: dict[PurePosixPath, mar.Source] = {
        PurePosixPath("handlers", file.name): file for file in sorted(tree.glob("*.py"))
    }
    entry = recipe.directory / recipe.handler if recipe.handler else tree / recipe.entry
    if not entry.is_file():
        raise RecipeError(f"There is no handler {entry}: correct the key handler, or put the file there.")
    return package | {PurePosixPath(recipe.entry): entry}


def nutrition(recipe: Recipe) -> dict[PurePosixPath, mar.Source]:
    """The nutrition table, where the recipe names one. Raises RecipeError for one that cannot be used."""
    if recipe.nutrition is None:
        return {}
    return {MODEL / "nutrition.json": dump_json(read_table(recipe.directory / recipe.nutrition))}


def extra_files(recipe: Recipe) -> dict[PurePosixPath, Path]:
    """The files of the key extra_files and of the directories in it, by their paths from the recipe's directory.

    Caches and hidden directories in a directory are left out. Raises RecipeError for what is not there, lies elsewhere
    in truth, or takes the name of something that the build writes.
    """
    files: dict[PurePosixPath, Path] = {}
    for extra in recipe.extra_files:
        path = recipe.directory / extra
        if not path.resolve().is_relative_to(recipe.directory):
            raise RecipeError(
                f"The extra file {path} is a link out of the recipe's directory: put a copy in its place."
            )
        try:
            found = {PurePosixPath(extra, name): file for name, file in walk(path)} if path.is_dir() else {}
        except (ArchiveError, OSError) as error:
            raise RecipeError(f"The extra files of {path} cannot be packed: {error}") from None
        files |= found or {PurePosixPath(extra): path}
    for name, file in files.items():
        if name.parts[0] in recipe.kind.members:
            raise RecipeError(f"The extra file {name} has the name of what the build writes there: rename it.")
        if not file.is_file():
            raise RecipeError(f"There is no extra file {file} to be read: correct the key extra_files.")
    return files
