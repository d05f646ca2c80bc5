"""serving.json: the one thing that both halves agree on. The worker's reader is handlers/settings.py."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict

FORMAT: Literal[1] = 1

Layout = Literal["packed", "padded", "single"]
LongText = Literal["truncate", "error", "window"]
TruncationSide = Literal["right", "left"]
# fp32 products, bf16 ones where the CPU has them, or int8 ones by a quantised network.
Precision = Literal["fp32", "bf16", "int8"]
Decode = Literal["scaled", "full"]
# What runs the network in a worker.
Engine = Literal["ONNX Runtime", "PyTorch"]
# Runs of the network that an explanation takes, where the recipe asks for explanations.
EXPLAIN_RUNS = 256


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Options(_Section):
    """What an operator may change without a rebuild; what the recipe leaves out, the handlers' defaults decide."""

    top_k: int
    explain_runs: int = 0


class TokenTypes(_Section):
    """The token type of each special token `before` and `after` a text, and of the tokens of the `text` itself."""

    before: tuple[int, ...]
    text: int
    after: tuple[int, ...]

    def of(self, length: int) -> list[int]:
        """The types of a window of `length` tokens, special tokens included."""
        inner = length - len(self.before) - len(self.after)
        return [*self.before, *[self.text] * inner, *self.after]


class TextSettings(_Section):
    """How text becomes token ids, and how the graph takes a batch of them; `max_tokens` counts the special tokens.

    A text with more of them is cut, refused or split into windows side by side, as `long_text` says. `mask_token`
    stands for what an explanation leaves out. What a text is cut at is its end, or its beginning where
    `truncation_side` is "left". With `split_special_tokens`, a special token that a text spells out is text like any
    other. The graph takes token types only where there are `token_types`.
    """

    normalise: Literal["none", "tweet"]
    max_tokens: int
    first_position: int
    layout: Layout = "packed"
    pad_token: int = 0
    mask_token: int | None = None
    long_text: LongText = "truncate"
    truncation_side: TruncationSide = "right"
    split_special_tokens: bool = False
    token_types: TokenTypes | None = None


class ImageSettings(_Section):
    """How an image becomes the network's pixels; sizes are pixels as (height, width), `resample` is Pillow's number.

    The network itself rescales and normalises. `scaled_decode`: whether JPEGs may be decoded at 1/2, 1/4 or 1/8 of
    their size, as long as both sides keep twice the pixels that they are resized to.
    """

    size: tuple[int, int]
    resample: int
    rescale_factor: float
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    shortest_edge: int | None = None
    crop: tuple[int, int] | None = None
    scaled_decode: bool = False


class Serving(_Section):
    """The whole file."""

    format: Literal[1] = FORMAT
    name: str
    version: str
    precision: str
    labels: list[str]
    options: Options
    text: TextSettings | None = None
    image: ImageSettings | None = None

    def to_json(self) -> bytes:
        """The file's bytes, the same for the same settings."""
        return dump_json(self.model_dump(mode="json"))


def dump_json(value: object) -> bytes:
    """Readable JSON with one spelling: keys as given, UTF-8, a newline at the end."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8")
