"""The members of an archive that its recipe alone decides, known before anything heavy is loaded."""

from __future__ import annotations

from pathlib import PurePosixPath

from marsmith import manifest, mar
from marsmith.nutrition import read_table
from marsmith.recipe import Recipe
from marsmith.resources import handlers_tree
from marsmith.serving import dump_json

MODEL = PurePosixPath("model")


def planned(recipe: Recipe, source: str) -> dict[PurePosixPath, mar.Source]:
    """Code, configuration, requirements, manifest and nutrition; `source` says where the checkpoint came from.

    Raises RecipeError for a nutrition table that cannot be used.
    """
    members = {
        **_code(recipe),
        PurePosixPath(manifest.CONFIG_FILE): manifest.model_config(recipe),
        PurePosixPath(manifest.REQUIREMENTS_FILE): manifest.requirements(recipe.task),
        PurePosixPath(mar.MANIFEST): manifest.manifest(recipe, f"{recipe.task}.py", source),
    }
    if recipe.nutrition is not None:
        members[MODEL / "nutrition.json"] = dump_json(read_table(recipe.directory / recipe.nutrition))
    return members


def _code(recipe: Recipe) -> dict[PurePosixPath, mar.Source]:
    """The handlers package, and its module for the task at the archive's root, where TorchServe looks."""
    tree = handlers_tree()
    code: dict[PurePosixPath, mar.Source] = {
        PurePosixPath("handlers", file.name): file for file in sorted(tree.glob("*.py"))
    }
    return code | {PurePosixPath(f"{recipe.task}.py"): tree / f"{recipe.task}.py"}
