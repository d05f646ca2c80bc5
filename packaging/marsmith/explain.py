"""`marsmith explain`: why a model answers as it does, to look at."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from marsmith.atomic import atomic
from marsmith.client import Client
from marsmith.errors import ClientError

PNG = "data:image/png;base64,"


def explain(model: str, source: Path, url: str, headers: dict[str, str]) -> dict[str, Any]:
    """Ask a server to explain its answer to a file, text in UTF-8 or an image. Raises ClientError when it does not."""
    try:
        content = source.read_bytes()
    except OSError as error:
        raise ClientError(f"{source} cannot be read: {error.strerror}.") from None
    answer = Client(url, headers).explain(model, _text(content) or content)
    if not answer.ok:
        raise ClientError(f"{model} does not explain {source}: {answer.message} (status {answer.status}).")
    body = answer.body
    if not isinstance(body, dict) or not isinstance(body.get("explanation"), dict):
        raise ClientError(f"{model} answers with no explanation that this command knows: ask it with --json.")
    return body


def _text(content: bytes) -> str | None:
    """What is UTF-8; no image file is."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def save_overlay(explanation: Mapping[str, Any], out: Path) -> None:
    """Write the picture of an image's explanation. Raises ClientError where there is none."""
    overlay = str(explanation.get("overlay"))
    if not overlay.startswith(PNG):
        raise ClientError("An explanation of a text is no picture: leave out --output.")
    try:
        with atomic(out) as stream:
            stream.write(base64.b64decode(overlay.removeprefix(PNG)))
    except OSError as error:
        raise ClientError(f"{out} cannot be written: {error.strerror}.") from None


def table(explanation: Mapping[str, Any]) -> Table:
    """The attributions: of each token to each label, or of an image's regions to the best one."""
    if "tokens" in explanation:
        return _tokens(explanation)
    return _regions(explanation)


def _tokens(explanation: Mapping[str, Any]) -> Table:
    labels = list(explanation["logits"])
    rows = [[token["attributions"][label] for label in labels] for token in explanation["tokens"]]
    largest = max((abs(value) for row in rows for value in row), default=0)
    grid = Table("token", *map(escape, labels))
    grid.add_row("(none)", *(f"{explanation['baseline_logits'][label]:+.2f}" for label in labels), style="dim")
    for token, row in zip(explanation["tokens"], rows, strict=True):
        grid.add_row(escape(token["text"]), *(_coloured(value, largest) for value in row))
    grid.add_section()
    grid.add_row("all", *(f"{explanation['logits'][label]:+.2f}" for label in labels))
    return grid


def _regions(explanation: Mapping[str, Any]) -> Table:
    rows = explanation["attributions"]
    largest = max(abs(value) for row in rows for value in row)
    title = (
        f"{explanation['label']}: {explanation['logit']:+.2f}, "
        f"of which {explanation['baseline_logit']:+.2f} without the image"
    )
    grid = Table(show_header=False, title=escape(title), title_justify="left")
    for row in rows:
        grid.add_row(*(_coloured(value, largest) for value in row))
    return grid


def _coloured(value: float, largest: float) -> Text:
    """Red where it speaks for the label, blue where against, the stronger the brighter."""
    strength = abs(value) / (largest or 1)
    colour = "red" if value > 0 else "blue"
    style = f"bold {colour}" if strength > 1 / 2 else colour if strength > 1 / 8 else "dim"
    return Text(f"{value:+.2f}", style)
