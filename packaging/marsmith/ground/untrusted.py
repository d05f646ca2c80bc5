"""Text and JSON out of archives, which anybody may have made: read without surprises, shown without harm."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

# A name or key out of a hostile archive may be of any length; this much of it is enough to find it.
MAX_SHOWN_CHARACTERS = 300
# Deeper than any configuration, and few enough for aliases that double with each level.
MAX_DEPTH = 6


def printable(text: str) -> str:
    """The text without what could move a terminal's cursor or fail to be encoded, and not too long."""
    shown = text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in shown)


def json_value(data: bytes) -> Any:
    """A JSON value; None for what is none, or is nested too deeply to be read."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def strict_json_value(data: bytes, depth: int) -> Any:
    """A JSON value of a server's. Raises ValueError for one that JSON or a float cannot say, or deeper than `depth`."""
    try:
        value = json.loads(data, parse_constant=_no_number, parse_float=_number, parse_int=_whole_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [value]
    for _ in range(depth):
        level = [
            element
            for one in level
            if isinstance(one, (dict, list))
            for element in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number that no float can hold")
    return value


def _whole_number(digits: str) -> int:
    _number(digits)
    return int(digits)


def json_line(value: Any, encoding: str = "utf-8") -> str:
    """A value as JSON for a terminal: what it must not print, or cannot encode, is an escape that means the same."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(value, default=str)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def plain(value: Any, depth: int = MAX_DEPTH) -> Any:
    """The value as JSON can say it: what YAML makes of aliases may hold itself, and dates are no JSON."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if depth and isinstance(value, dict):
        return {str(key): plain(one, depth - 1) for key, one in value.items()}
    if depth and isinstance(value, list):
        return [plain(one, depth - 1) for one in value]
    return "…" if isinstance(value, (dict, list)) else str(value)


def mapping(value: Any) -> dict[str, Any]:
    """The value where it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def strings(value: Any) -> list[str]:
    """The strings of a JSON list; an empty list for anything else."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
