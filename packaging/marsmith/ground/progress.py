"""How long work says what it is doing: it calls a `Progress` with the name of each step."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]


def silent(_step: str) -> None:
    """Say nothing."""
