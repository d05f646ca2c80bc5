"""A checkpoint's settings, JSON objects: read strictly, because two readers may read oddities differently."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from marsmith.errors import CheckpointError
from marsmith.ground.placeholders import JSON_MESSAGE, is_error, what_stands_at

# An index of 1,000 shards or a configuration of 21,000 labels has some MiB.
MAX_SETTINGS_BYTES = 32 << 20
# Deeper than any settings, and less than transformers' own recursion stands.
MAX_DEPTH = 50


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object that a file of a checkpoint holds. Raises CheckpointError, which says what it holds instead."""
    try:
        if file.stat().st_size > MAX_SETTINGS_BYTES:
            raise _invalid(file, f"has more than {MAX_SETTINGS_BYTES:,} bytes")
        content = file.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{file} is missing: this is not a whole Hugging Face checkpoint.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{file} cannot be read: {reason}. Correct its rights, or save it again.") from None
    if kind := what_stands_at(file, json_is_data=True):
        raise CheckpointError(f"{file} is {kind}.")
    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=_without_doubles, parse_constant=_not_json)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # which finds halves of surrogate pairs
    except UnicodeError:
        raise _invalid(file, "is not UTF-8") from None
    except RecursionError:
        raise _invalid(file, "is nested too deeply") from None
    except ValueError as error:
        raise _invalid(file, f"is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise _invalid(file, "is not a JSON object")
    if is_error(value):
        raise CheckpointError(f"{file} is {JSON_MESSAGE}.")
    if any(depth > MAX_DEPTH for _, _, depth in entries(value)):
        raise _invalid(file, "is nested too deeply")
    return value


def entries(value: Any) -> Iterator[tuple[str, Any, int]]:
    """Every key of a JSON value's objects, at any depth, with its value and depth; elements have their list's key."""
    pending = [("", value, 0)]
    while pending:
        key, here, depth = pending.pop()
        if depth:
            yield key, here, depth
        if isinstance(here, dict):
            pending += [(name, one, depth + 1) for name, one in here.items()]
        elif isinstance(here, list):
            pending += [(key, one, depth + 1) for one in here]


def _invalid(file: Path, what: str) -> CheckpointError:
    return CheckpointError(f"{file} {what}: save or download it again.")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        double = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"duplicate key {double!r}")
    return made


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
