"""Change a recipe's TOML as a person would: comments, order and everything else stay."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.container import Container
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AbstractTable, AoT, Table

from marsmith.errors import RecipeError
from marsmith.ground.files import atomic, decoded
from marsmith.recipe.recipe import Recipe

WRITE_BITS = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def edited(recipe: Recipe, file: Path, after: Recipe) -> Recipe:
    """`recipe` as it reads when the keys in which `after` differs are changed in its TOML.

    Keys of the recipe's first table and of [serving] are changed. Raises RecipeError when that gives another recipe.
    """
    try:
        document: Any = tomlkit.parse(decoded(recipe.toml))
        _change(document, _differing(recipe.model_dump(exclude={"serving"}), after.model_dump(exclude={"serving"})))
        if changes := _differing(recipe.serving.model_dump(), after.serving.model_dump()):
            if "serving" not in document:
                document["serving"] = tomlkit.table()
            _change(document["serving"], changes)
        toml = _as_before(tomlkit.dumps(document).encode("utf-8"), recipe.toml)
        found = Recipe.parse(toml, file)
    except TOMLKitError as error:
        raise _uneditable(file, error) from None
    if found.model_dump() != after.model_dump():
        raise _uneditable(file, "it would say something else")
    return found


def check_editable(recipe: Recipe, file: Path) -> None:
    """Raise RecipeError for a file that is not to be written, or that would not stay as it is beside the changed keys.

    One without a write bit is not: that would not stop root.
    """
    try:
        # Tables of one array that lie apart would be put together.
        if tomlkit.dumps(tomlkit.parse(text := decoded(recipe.toml))) != text:
            raise _uneditable(file, "its tables would change their order")
    except TOMLKitError as error:
        raise _uneditable(file, error) from None
    try:
        mode = file.stat().st_mode
    except OSError as error:
        raise RecipeError(f"The recipe {file} cannot be written: {error.strerror or error}.") from None
    if not mode & WRITE_BITS or not os.access(file, os.W_OK):
        raise RecipeError(f"The recipe {file} is read-only: make it writable, or leave --write out.")


def write(before: Recipe, after: Recipe, file: Path) -> None:
    """Put `after` in the place of `before` in `file`. Raises RecipeError when it changed or cannot be written."""
    check_editable(before, file)
    target = file.resolve()
    try:
        if target.read_bytes() != before.toml:
            raise RecipeError(f"The recipe {file} was changed meanwhile, so it stays as it is: tune it again.")
        with atomic(target, stat.S_IMODE(target.stat().st_mode)) as stream:
            stream.write(after.toml)
    except OSError as error:
        raise RecipeError(f"The recipe {file} cannot be written: {error.strerror or error}.") from None


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in after.items() if value != before[key]}


def _change(table: Any, changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if value is None:
            table.pop(key)
        elif key in table or not (last := _last_key(table)):
            table[key] = value
        else:
            # At the table's end it would stand behind the comment on the next table; tomlkit has no public way.
            _container(table)._insert_after(last, key, value)


def _container(table: Any) -> Any:
    return table.value if isinstance(table, Table) else table


def _last_key(table: Any) -> Any:
    """The last key of a table that is no table itself; None where an inline or scattered table has no lines."""
    body = _container(table).body if isinstance(table, (Table, Container)) else ()
    keys = [key for key, value in body if key is not None and not isinstance(value, (AbstractTable, AoT))]
    return keys[-1] if keys else None


def _as_before(toml: bytes, before: bytes) -> bytes:
    """The text with the line ends that it had throughout, and with its byte order mark."""
    crlf = before.count(b"\r\n")
    if crlf and crlf == before.count(b"\n"):
        toml = re.sub(rb"(?<!\r)\n", b"\r\n", toml)
    return codecs.BOM_UTF8 + toml if before.startswith(codecs.BOM_UTF8) else toml


def _uneditable(file: Path, why: object) -> RecipeError:
    return RecipeError(f"The recipe {file} cannot be changed for you ({why}): write the keys into it yourself.")
