"""The golden requests that an archive carries, as a worker's first requests."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handlers.requests import Request

GOLDEN = "MAR-INF/golden.json"
# As many as show the network a batch of real inputs; more would only make the worker ready later.
MOST = 8


def golden_requests(archive: Path) -> list[Request]:
    """The first golden requests of the unpacked archive; none where it has none, as one of `marsmith archive`.

    They are as TorchServe hands them over when `marsmith test` asks them. Raises ValueError, KeyError or TypeError for
    a file that `marsmith build` did not write.
    """
    file = archive / GOLDEN
    if not file.exists():
        return []
    return [_request(entry) for entry in json.loads(file.read_text(encoding="utf-8"))["requests"][:MOST]]


def _request(entry: Mapping[str, Any]) -> Request:
    if "image" in entry:
        image = base64.b64decode(entry["image"], validate=True)
        return Request({"body": image}, {"content-type": "application/octet-stream"}, "golden")
    body = entry["json"] if "json" in entry else {"text": entry["text"]}
    return Request({"body": body}, {"content-type": "application/json"}, "golden")
