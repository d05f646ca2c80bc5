"""Text and JSON out of archives, which anybody may have made: read without surprises, shown without harm."""

from __future__ import annotations

import json
from typing import Any

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
