"""Change a recipe's TOML as a person would: comments, order and everything else stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from marsmith.atomic import atomic
from marsmith.errors import RecipeError
from marsmith.recipe import Recipe


def edited(recipe: Recipe, file: Path, after: Recipe) -> Recipe:
    """`recipe` as it reads when the keys in which `after` differs are changed in its TOML.

    Keys of the recipe's first table and of [serving] are changed. Raises RecipeError when that gives another recipe.
    """
    try:
        document: Any = tomlkit.parse(recipe.toml.decode("utf-8"))
        _change(document, _differing(recipe.model_dump(exclude={"serving"}), after.model_dump(exclude={"serving"})))
        if changes := _differing(recipe.serving.model_dump(), after.serving.model_dump()):
            if "serving" not in document:
                document["serving"] = tomlkit.table()
            _change(document["serving"], changes)
        found = Recipe.parse(tomlkit.dumps(document).encode("utf-8"), file)
    except TOMLKitError as error:
        raise _uneditable(file, error) from None
    if found.model_dump() != after.model_dump():
        raise _uneditable(file, "it would say something else")
    return found


def write(before: Recipe, after: Recipe, file: Path) -> None:
    """Put `after` in the place of `before` in `file`. Raises RecipeError when it changed or cannot be written."""
    target = file.resolve()
    try:
        if target.read_bytes() != before.toml:
            raise RecipeError(f"The recipe {file} was changed meanwhile, so it stays as it is: tune it again.")
        with atomic(target) as stream:
            stream.write(after.toml)
    except OSError as error:
        raise RecipeError(f"The recipe {file} cannot be written: {error.strerror or error}.") from None


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in after.items() if value != before[key]}


def _change(table: Any, changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if value is None:
            table.pop(key)
        else:
            table[key] = value


def _uneditable(file: Path, why: object) -> RecipeError:
    return RecipeError(f"The recipe {file} cannot be changed for you ({why}): write the keys into it yourself.")
