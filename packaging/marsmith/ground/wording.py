"""Sizes in words, and what is wrong with a recipe: pydantic's own messages are about Python, and a user writes TOML."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from marsmith.ground.untrusted import printable

# What a value must be, by pydantic's type of the error; what stands in braces is of its context.
MUST_BE = {
    "string_type": "must be text in quotes",
    "string_too_short": "must not be empty",
    "string_too_long": "may have {max_length} characters at most",
    "string_unicode": "has characters that cannot be encoded in UTF-8",
    "string_pattern_mismatch": (
        "may hold letters, digits, '_', '-' and single dots, and begins with a letter or digit"
    ),
    "path_type": "must be a path in quotes",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "greater_than_equal": "must be {ge} or more",
    "less_than_equal": "must be {le} or less",
    "literal_error": "must be {expected}",
    "list_type": "must be a list in brackets",
    "too_short": "must have {min_length} or more elements",
    "dict_type": "must be a table",
    "model_type": "must be a table",
}
# A kind of error that no field here has had yet.
OTHERWISE = "has a value that is not allowed"
# How pydantic's location says that the key of a table is meant, not its value.
KEY = "[key]"
KIB = 1024


def explained(error: ValidationError, sections: Mapping[str, type[BaseModel]]) -> str:
    """The faults, a phrase for each; `sections` are the recipe's tables by name, the recipe itself by an empty one.

    Keys and values are quoted as far as they can be printed.
    """
    return "; ".join(printable(_phrase(detail, sections)) for detail in error.errors())


def _phrase(detail: ErrorDetails, sections: Mapping[str, type[BaseModel]]) -> str:
    where = _place(detail["loc"])
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        section, key = str(detail["loc"][0]), str(detail["loc"][-1])
        return f"it has a key {where} that nobody reads{_meant(key, sections.get(section, sections['']))}"
    if kind == "missing":
        return f"the key {where} is missing"
    if kind == "value_error":
        return f"{where}: {context['error']}" if where else str(context["error"])
    return f"{where} {MUST_BE.get(kind, OTHERWISE).format(**context)}"


def _place(location: tuple[Any, ...]) -> str:
    """`samples 1.text`: people count from 1."""
    place = ""
    for key in location:
        if key != KEY:
            place += f" {key + 1}" if isinstance(key, int) else f".{key}" if place else str(key)
    return f"the key {place}" if KEY in location else place


def _meant(key: str, model: type[BaseModel]) -> str:
    known = [field.alias or name for name, field in model.model_fields.items() if not field.exclude]
    close = difflib.get_close_matches(key, known, n=1)
    return f", did you mean {close[0]}?" if close else ""


def size(count: int) -> str:
    """A number of bytes for people."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < KIB:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= KIB
    return f"{value:.1f} GiB"
