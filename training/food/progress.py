"""What training says while it runs: on stderr, by the first process only."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

from rich.console import Console
from rich.progress import track as rich_track

Item = TypeVar("Item")
FIRST = os.environ.get("RANK", "0") == "0"
console = Console(stderr=True, quiet=not FIRST, soft_wrap=True, highlight=False)


def track(items: Iterable[Item], title: str, total: int | None = None) -> Iterable[Item]:
    """Yield `items` under a progress bar."""
    return rich_track(items, title, total=total, console=console, transient=True, disable=not FIRST)
