"""`marsmith explain`: why a model answers as it does, to look at."""

from __future__ import annotations

import base64
import binascii
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Self

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from marsmith.errors import ClientError
from marsmith.ground.files import atomic, read_regular
from marsmith.ground.limits import MAX_INPUT_BYTES
from marsmith.ground.untrusted import printable
from marsmith.rest.client import Client

PNG = "data:image/png;base64,"
# What a table is drawn of. The handlers explain 5 labels at most, of 32 windows of 512 tokens or of 7 x 7 regions.
MAX_LABELS, MAX_TOKENS, MAX_REGIONS = 100, 16_384, 100
# The last chunk of every PNG, with its checksum.
PNG_END = b"\0\0\0\0IEND\xaeB`\x82"
# An overlay has the size of the network's input, some hundred pixels a side; past this it is none.
MAX_OVERLAY_SIDE = 4096


class _Part(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)


Number = Annotated[float, Field(strict=True)]
ByLabel = Annotated[dict[str, Number], Field(max_length=MAX_LABELS)]
Row = Annotated[list[Number], Field(min_length=1, max_length=MAX_REGIONS)]


class Token(_Part):
    """What a token adds to each label's logit."""

    text: str
    attributions: ByLabel


class TextExplanation(_Part):
    """Of a text: `logits` and `baseline_logits`, those of no text, by label."""

    logits: ByLabel
    baseline_logits: ByLabel
    tokens: Annotated[list[Token], Field(max_length=MAX_TOKENS)]

    @model_validator(mode="after")
    def _same_labels(self) -> Self:
        by_label = (self.baseline_logits, *(token.attributions for token in self.tokens))
        if any(one.keys() != self.logits.keys() for one in by_label):
            raise ValueError("the labels differ")
        return self


class ImageExplanation(_Part):
    """Of an image: what its regions, in rows, add to the logit of the best label, and that as a picture."""

    label: str
    logit: Number
    baseline_logit: Number
    attributions: Annotated[list[Row], Field(min_length=1, max_length=MAX_REGIONS)]
    overlay: Annotated[str, Field(pattern=f"^{PNG}")]


Explanation = TextExplanation | ImageExplanation


class _Answer(BaseModel):
    explanation: Explanation


def explain(model: str, source: Path, url: str, headers: dict[str, str], ca: Path | None = None) -> Any:
    """Ask a server to explain its answer to a file, text in UTF-8 or an image: the JSON value that it answers with.

    `ca` is the certificate of the server's CA. Raises ClientError when it does not.
    """
    try:
        content = read_regular(source, MAX_INPUT_BYTES)
    except OSError as error:
        raise ClientError(f"{source} cannot be read: {error.strerror}.") from None
    answer = Client(url, headers, ca).explain(model, _text(content) or content)
    if not answer.ok:
        why = answer.message.rstrip(".")
        raise ClientError(f"{model} does not explain {source}: {why} (status {answer.status or 'none'}).")
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
    if not _is_png(picture):
        raise ClientError(
            f"The overlay of this explanation is not a whole PNG of up to {MAX_OVERLAY_SIDE} x {MAX_OVERLAY_SIDE} "
            "pixels: leave out --output."
        )
    try:
        with atomic(out) as stream:
            stream.write(picture)
    except OSError as error:
        raise ClientError(f"{out} cannot be written: {error.strerror}.") from None


def _is_png(picture: bytes) -> bool:
    """Whether it is a PNG of a sane size whose chunks are whole, with nothing behind them. No pixel is decoded."""
    try:
        with Image.open(BytesIO(picture), formats=["PNG"]) as image:
            sane = max(image.size) <= MAX_OVERLAY_SIDE
            image.verify()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):  # what Pillow raises for a broken file
        return False
    return sane and picture.endswith(PNG_END)


def table(explanation: Explanation) -> Table:
    """The attributions: of each token to each label, or of an image's regions to the best one."""
    return _tokens(explanation) if isinstance(explanation, TextExplanation) else _regions(explanation)


def _tokens(explanation: TextExplanation) -> Table:
    labels = list(explanation.logits)
    rows = [[token.attributions[label] for label in labels] for token in explanation.tokens]
    largest = max((abs(value) for row in rows for value in row), default=0)
    grid = Table("token", *(escape(printable(label)) for label in labels))
    grid.add_row("(none)", *(f"{explanation.baseline_logits[label]:+.2f}" for label in labels), style="dim")
    for token, row in zip(explanation.tokens, rows, strict=True):
        grid.add_row(escape(printable(token.text)), *(_coloured(value, largest) for value in row))
    grid.add_section()
    grid.add_row("all", *(f"{explanation.logits[label]:+.2f}" for label in labels))
    return grid


def _regions(explanation: ImageExplanation) -> Table:
    rows = explanation.attributions
    largest = max(abs(value) for row in rows for value in row)
    logits = f"{explanation.logit:+.2f}, of which {explanation.baseline_logit:+.2f} without the image"
    title = f"{printable(explanation.label)}: {logits}"
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
