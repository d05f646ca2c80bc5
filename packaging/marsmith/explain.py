"""`marsmith explain`: why a model answers as it does, to look at."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, ValidationError, model_validator
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from marsmith.atomic import atomic
from marsmith.client import Client
from marsmith.errors import ClientError
from marsmith.limits import MAX_INPUT_BYTES
from marsmith.paths import read_regular

PNG = "data:image/png;base64,"

Row = Annotated[list[float], Field(min_length=1)]


class Token(BaseModel):
    """What a token adds to each label's logit."""

    text: str
    attributions: dict[str, float]


class TextExplanation(BaseModel):
    """Of a text: `logits` and `baseline_logits`, those of no text, by label."""

    logits: dict[str, float]
    baseline_logits: dict[str, float]
    tokens: list[Token]

    @model_validator(mode="after")
    def _same_labels(self) -> Self:
        by_label = (self.baseline_logits, *(token.attributions for token in self.tokens))
        if any(one.keys() != self.logits.keys() for one in by_label):
            raise ValueError("the labels differ")
        return self


class ImageExplanation(BaseModel):
    """Of an image: what its regions, in rows, add to the logit of the best label, and that as a picture."""

    label: str
    logit: float
    baseline_logit: float
    attributions: Annotated[list[Row], Field(min_length=1)]
    overlay: Annotated[str, Field(pattern=f"^{PNG}")]


Explanation = TextExplanation | ImageExplanation


class _Answer(BaseModel):
    explanation: Explanation


def explain(model: str, source: Path, url: str, headers: dict[str, str]) -> Any:
    """Ask a server to explain its answer to a file, text in UTF-8 or an image: the JSON value that it answers with.

    Raises ClientError when it does not.
    """
    try:
        content = read_regular(source, MAX_INPUT_BYTES)
    except OSError as error:
        raise ClientError(f"{source} cannot be read: {error.strerror}.") from None
    answer = Client(url, headers).explain(model, _text(content) or content)
    if not answer.ok:
        raise ClientError(f"{model} does not explain {source}: {answer.message} (status {answer.status}).")
    return answer.body


def parse(model: str, body: Any) -> Explanation:
    """The explanation in an answer of Marsmith's handlers. Raises ClientError for any other: handlers may have own."""
    try:
        return _Answer.model_validate(body).explanation
    except ValidationError:
        raise ClientError(
            f"{model} explains its answers in a form of its own, which this command can neither tabulate nor draw: "
            "ask with --json and without --output."
        ) from None


def _text(content: bytes) -> str | None:
    """What is UTF-8; no image file is."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def save_overlay(explanation: Explanation, out: Path) -> None:
    """Write the picture of an image's explanation. Raises ClientError where there is none."""
    if isinstance(explanation, TextExplanation):
        raise ClientError("An explanation of a text is no picture: leave out --output.")
    try:
        picture = base64.b64decode(explanation.overlay.removeprefix(PNG), validate=True)
    except binascii.Error:
        raise ClientError("The overlay of this explanation is no base64: leave out --output.") from None
    try:
        with atomic(out) as stream:
            stream.write(picture)
    except OSError as error:
        raise ClientError(f"{out} cannot be written: {error.strerror}.") from None


def table(explanation: Explanation) -> Table:
    """The attributions: of each token to each label, or of an image's regions to the best one."""
    return _tokens(explanation) if isinstance(explanation, TextExplanation) else _regions(explanation)


def _tokens(explanation: TextExplanation) -> Table:
    labels = list(explanation.logits)
    rows = [[token.attributions[label] for label in labels] for token in explanation.tokens]
    largest = max((abs(value) for row in rows for value in row), default=0)
    grid = Table("token", *map(escape, labels))
    grid.add_row("(none)", *(f"{explanation.baseline_logits[label]:+.2f}" for label in labels), style="dim")
    for token, row in zip(explanation.tokens, rows, strict=True):
        grid.add_row(escape(token.text), *(_coloured(value, largest) for value in row))
    grid.add_section()
    grid.add_row("all", *(f"{explanation.logits[label]:+.2f}" for label in labels))
    return grid


def _regions(explanation: ImageExplanation) -> Table:
    rows = explanation.attributions
    largest = max(abs(value) for row in rows for value in row)
    title = (
        f"{explanation.label}: {explanation.logit:+.2f}, of which {explanation.baseline_logit:+.2f} without the image"
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
