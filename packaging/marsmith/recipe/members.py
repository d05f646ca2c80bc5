"""The members of an archive that its recipe alone decides, known before anything heavy is loaded."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from marsmith.errors import ArchiveError, RecipeError
from marsmith.ground.files import is_dir, is_file, leads_out
from marsmith.ground.serving import ImageSettings, Options, Serving, TextSettings, dump_json
from marsmith.mar.collect import walk
from marsmith.mar.members import CONFIG, MANIFEST, REQUIREMENTS, Source
from marsmith.recipe import manifest
from marsmith.recipe.nutrition import read_table
from marsmith.recipe.recipe import Recipe
from marsmith.resources import handlers_tree

MODEL = PurePosixPath("model")
# The folder of an archive that holds the handlers' library.
HANDLERS = "handlers"
# What an archive without a network says of its checkpoint and its precision.
NO_CHECKPOINT = "none"


def planned(recipe: Recipe, source: str) -> dict[PurePosixPath, Source]:
    """Code, configuration, requirements, manifest, nutrition and extra files; `source` names the checkpoint.

    Raises RecipeError for a file of the recipe that cannot be used.
    """
    return {
        **code(recipe),
        **nutrition(recipe),
        **{MODEL / name: file for name, file in extra_files(recipe).items()},
        PurePosixPath(CONFIG): manifest.model_config(recipe),
        PurePosixPath(REQUIREMENTS): manifest.requirements(recipe),
        PurePosixPath(MANIFEST): manifest.manifest(recipe, source),
    }


def serving(
    recipe: Recipe, precision: str, labels: list[str], settings: TextSettings | ImageSettings | None = None
) -> Serving:
    """serving.json: how the network is fed, where there is one, and what its logits mean."""
    return Serving(
        name=recipe.name,
        version=recipe.version,
        precision=precision,
        labels=labels,
        options=Options(top_k=recipe.top_k, explain_runs=recipe.explain_runs),
        text=settings if isinstance(settings, TextSettings) else None,
        image=settings if isinstance(settings, ImageSettings) else None,
    )


def code(recipe: Recipe) -> dict[PurePosixPath, Source]:
    """The handlers package, and at the archive's root, where TorchServe looks, the recipe's handler or the task's.

    Raises RecipeError for a handler that is no file.
    """
    tree = handlers_tree()
    package: dict[PurePosixPath, Source] = {
        PurePosixPath(HANDLERS, file.relative_to(tree).as_posix()): file for file in sorted(tree.rglob("*.py"))
    }
    entry = recipe.directory / recipe.handler if recipe.handler else tree / recipe.entry
    if not is_file(entry):
        raise RecipeError(f"There is no handler {entry}: correct the key handler, or put the file there.")
    if recipe.handler and leads_out(entry, recipe.directory):
        raise RecipeError(f"The handler {entry} is a link out of the recipe's directory: put a copy in its place.")
    return package | {PurePosixPath(recipe.entry): entry}


def nutrition(recipe: Recipe) -> dict[PurePosixPath, Source]:
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
        if not _resolved(path).is_relative_to(recipe.directory):
            raise RecipeError(
                f"The extra file {path} is a link out of the recipe's directory: put a copy in its place."
            )
        files |= _below(path, PurePosixPath(extra)) if is_dir(path) else {PurePosixPath(extra): path}
    for name, file in files.items():
        if name.parts[0] in recipe.kind.members:
            raise RecipeError(f"The extra file {name} has the name of what the build writes there: rename it.")
        if not is_file(file):
            raise RecipeError(f"There is no extra file {file} to be read: correct the key extra_files.")
    return files


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop is the second until Python 3.13
        raise RecipeError(f"The extra file {path} is a link that leads back to itself: repair the link.") from None


def _below(directory: Path, name: PurePosixPath) -> dict[PurePosixPath, Path]:
    """The files in an extra directory of that name."""
    try:
        found = {name / file_name: file for file_name, file in walk(directory)}
    except (ArchiveError, OSError) as error:
        raise RecipeError(f"The extra files of {directory} cannot be packed: {error}") from None
    if not found:
        raise RecipeError(
            f"The extra directory {directory} holds nothing that is packed: put a file into it, or take it out of the "
            "key extra_files."
        )
    return found
