"""What a worker knows about its model.

`model/serving.json`, written by `marsmith build`, is the whole truth about the checkpoint. Its `options` are what an
operator may change without a rebuild: in the `handler:` section of model-config.yaml, or, stronger, in an
environment variable MARSMITH_<OPTION> such as MARSMITH_TOP_K=3.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handlers.work import WORK_MS

FORMAT = 1
# Of one request, which costs the network no more than so many ordinary instances (see base.py).
MAX_INSTANCES = 64
# Every other option that is a number is at least 1.
SMALLEST = {"threads": 0, "explain_runs": 0}
# What becomes of a text longer than the model reads, and which end of it is left out where it is truncated.
LONG_TEXT = ("truncate", "error", "window")
TRUNCATION_SIDES = ("right", "left")
# Options that are words, and what they may be.
CHOICES = {"long_text": LONG_TEXT, "share_weights": ("auto", "yes", "no")}
ENVIRONMENT_PREFIX = "MARSMITH_"


class SettingsError(RuntimeError):
    """The settings cannot be used. A RuntimeError, because TorchServe's worker reports those and no others."""


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator may change: whole numbers, and words of CHOICES.

    `threads` 0 means what the thread plan gives, `explain_runs` 0 that nothing is explained, `long_text` None what the
    text section says, `share_weights` "auto" that workers share one copy of the weights where there are several.
    """

    top_k: int = 5
    threads: int = 0
    max_instances: int = MAX_INSTANCES
    max_text_bytes: int = 1_048_576
    max_image_bytes: int = 20_000_000
    max_pixels: int = 64_000_000
    token_budget: int = 512
    image_batch: int = 16
    max_windows: int = 32
    explain_runs: int = 0
    work_ms: int = WORK_MS
    long_text: str | None = None
    share_weights: str = "auto"


@dataclass(frozen=True, slots=True)
class TokenTypes:
    """The token type of each special token `before` and `after` a text, and of the tokens of the `text` itself."""

    before: tuple[int, ...]
    text: int
    after: tuple[int, ...]

    def of(self, length: int) -> list[int]:
        """The types of a window of `length` tokens, special tokens included."""
        inner = length - len(self.before) - len(self.after)
        return [*self.before, *(self.text for _ in range(inner)), *self.after]


@dataclass(frozen=True, slots=True)
class TextSettings:
    """How text becomes token ids, and how the graph takes a batch of them (`layout`: "packed", "padded" or "single").

    `first_position` is the checkpoint's first position id (RoBERTa: 2), which a packed batch counts from; `pad_token`
    fills a padded one, and `mask_token` stands for what an explanation leaves out. `long_text` is one of LONG_TEXT,
    `truncation_side` one of TRUNCATION_SIDES. With `split_special_tokens`, a special token that a text spells out is
    text like any other. The graph takes token types only where there are `token_types`.
    """

    normalise: str
    max_tokens: int
    first_position: int
    layout: str = "packed"
    pad_token: int = 0
    mask_token: int | None = None
    long_text: str = "truncate"
    truncation_side: str = "right"
    split_special_tokens: bool = False
    token_types: TokenTypes | None = None

    def __post_init__(self) -> None:
        if self.long_text not in LONG_TEXT:
            raise ValueError(f"long_text is {self.long_text!r}")
        if self.truncation_side not in TRUNCATION_SIDES:
            raise ValueError(f"truncation_side is {self.truncation_side!r}")


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """How an image becomes the network's pixels; sizes are pixels as (height, width), `resample` is Pillow's number.

    The network itself rescales and normalises. `scaled_decode`: a JPEG may be decoded at a fraction of its size.
    """

    size: tuple[int, int]
    resample: int
    rescale_factor: float
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    shortest_edge: int | None = None
    crop: tuple[int, int] | None = None
    scaled_decode: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """serving.json, with the options that are in force."""

    name: str
    version: str
    labels: tuple[str, ...]
    precision: str
    options: Options
    text: TextSettings | None = None
    image: ImageSettings | None = None

    def label(self, index: int) -> str:
        """What a logit is called: its label, or its number where a head has no labels."""
        return self.labels[index] if index < len(self.labels) else str(index)

    @classmethod
    def load(
        cls, file: Path, overrides: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ
    ) -> Settings:
        """Read serving.json and lay the `handler:` section and the environment over its options.

        Raises SettingsError with one sentence when anything is missing, unknown or of the wrong type.
        """
        try:
            raw = json.loads(file.read_text(encoding="utf-8"))
            if raw["format"] != FORMAT:
                raise SettingsError(
                    f"{file.name} has format {raw['format']}, these handlers read {FORMAT}: build the archive again"
                )
            options = _override(Options(**raw["options"]), overrides or {}, environ)
            return cls(
                name=raw["name"],
                version=raw["version"],
                labels=tuple(raw["labels"]),
                precision=raw["precision"],
                options=options,
                text=_text_settings(raw["text"]) if raw.get("text") else None,
                image=_image_settings(raw["image"]) if raw.get("image") else None,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SettingsError(f"{file.name} cannot be used ({error}): build the archive again") from error


def _text_settings(raw: Mapping[str, Any]) -> TextSettings:
    types = raw.get("token_types")
    return TextSettings(**{**raw, "token_types": TokenTypes(**_with_tuples(types)) if types else None})


def _image_settings(raw: Mapping[str, Any]) -> ImageSettings:
    return ImageSettings(**_with_tuples(raw))


def _with_tuples(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}


def _override(options: Options, section: Mapping[str, Any], environ: Mapping[str, str]) -> Options:
    known = {field.name for field in dataclasses.fields(Options)}
    if unknown := sorted(set(section) - known):
        raise SettingsError(f"model-config.yaml has handler options nobody reads: {', '.join(unknown)}")
    changes: dict[str, Any] = {}
    for name in sorted(known):
        variable = ENVIRONMENT_PREFIX + name.upper()
        if variable in environ:
            changes[name] = _option(name, variable, environ[variable])
        elif name in section:
            changes[name] = _option(name, f"handler option {name}", section[name])
    return dataclasses.replace(options, **changes)


def _option(name: str, where: str, value: object) -> int | str:
    if name not in CHOICES:
        return _whole_number(where, value, SMALLEST.get(name, 1))
    if isinstance(value, bool) and "yes" in CHOICES[name]:
        value = "yes" if value else "no"  # what YAML 1.1, and so TorchServe, makes of these two words
    if value not in CHOICES[name]:
        raise SettingsError(f"{where} is {value!r}: set it to one of {', '.join(CHOICES[name])}")
    return str(value)


def _whole_number(where: str, value: object, smallest: int) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = smallest - 1
    if number < smallest:
        raise SettingsError(f"{where} is {value!r}: set it to a whole number, {smallest} or more")
    return number
