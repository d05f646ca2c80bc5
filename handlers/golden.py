"""The golden requests that an archive carries, as a worker's first instances."""

from __future__ import annotations

import json
from pathlib import Path

from handlers.requests import Item, Request, items

GOLDEN = "MAR-INF/golden.json"
# As many as show the network a batch of real inputs; more would only make the worker ready later.
MOST = 8
KINDS = ("text", "image", "json")


def golden_items(archive: Path) -> list[Item]:
    """The first golden requests of the unpacked archive; none where it has none, as one of `marsmith archive`.

    Raises ValueError, KeyError or TypeError for a file that `marsmith build` did not write.
    """
    file = archive / GOLDEN
    if not file.exists():
        return []
    requests = json.loads(file.read_text(encoding="utf-8"))["requests"][:MOST]
    bodies = [request[kind] for request in requests for kind in KINDS if kind in request]
    return [item for body in bodies for item in items(Request({"body": body}, {}, "")).items]
