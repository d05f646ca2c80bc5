"""Golden requests, MAR-INF/golden.json: requests, and the answers that the checkpoint itself gives them.

The answers are computed by PyTorch and transformers, never by a handler: what serves the archive is measured by them.
Only where a handler of one's own decides what an answer is, the recipe says it, or recording.py asks the archive.
"""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from marsmith.errors import GoldenError, RecipeError
from marsmith.ground.files import leads_out
from marsmith.ground.limits import MAX_GOLDEN_BYTES
from marsmith.ground.placeholders import what_stands_at
from marsmith.ground.serving import dump_json
from marsmith.mar.members import GOLDEN
from marsmith.mar.reader import open_archive, read_member
from marsmith.recipe.recipe import Recipe

# Scores of one fp32 network by another engine and CPU; a wrong token, pixel or resampling is off by 1e-3 and more.
TOLERANCE = 1e-4
# A tolerance that lets a wrong label's score pass tests nothing.
MAX_TOLERANCE = 0.1
# bf16 keeps 8 bits of each number that it multiplies: 12 layers change a logit by about 1e-3.
BF16_TOLERANCE = 1e-2
# Digits past the tolerance say nothing, and the last ones differ between CPUs, which would make the archives differ.
DECIMALS = 5
# What a recipe without samples is tested with; the long one only where a long text has an answer.
SHORT_PROBE_TEXTS = ("ok", "What a great day at the beach with @user, thank you! 😀 http")
LONG_PROBE_TEXT = "so tired of this weather " * 40
PROBE_SEED, PROBE_WIDTH, PROBE_HEIGHTS = 7, 64, (48, 64)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Request(_Section):
    """One request, a text, an image file in base64 or a JSON value, and the least that its answer must hold.

    In `expect`, numbers may differ by `tolerance`, and one above 1 by that share of it. An object may have more keys
    and a list more elements, unless the answer is expected `whole`.
    """

    name: str = Field(min_length=1)
    text: str | None = None
    image: str | None = None
    value: Any = Field(None, alias="json")
    expect: Any
    whole: bool | None = None
    tolerance: float = Field(ge=0, le=MAX_TOLERANCE)

    @model_validator(mode="after")
    def _one_input(self) -> Request:
        if sum(one is not None for one in (self.text, self.image, self.value)) != 1:
            raise ValueError("give either text, image or json")
        if self.expect is None or (self.expect in ({}, []) and not self.whole):
            raise ValueError("any answer would do")
        self.payload()  # which must be base64
        return self

    def payload(self) -> tuple[bytes, str]:
        """The body to send, and its Content-Type."""
        if self.image is not None:
            return base64.b64decode(self.image, validate=True), "application/octet-stream"
        value = {"text": self.text} if self.text is not None else self.value
        return json.dumps(value).encode("utf-8"), "application/json"


class Golden(_Section):
    """The whole file."""

    format: Literal[1] = 1
    requests: list[Request]

    def to_json(self) -> bytes:
        """The file's bytes, the same for the same requests. Raises RecipeError when they are too many to be read."""
        content = dump_json(self.model_dump(mode="json", exclude_none=True, by_alias=True))
        if len(content) > MAX_GOLDEN_BYTES:
            raise RecipeError(f"The samples take more than {MAX_GOLDEN_BYTES:,} bytes: choose fewer or smaller ones.")
        return content


@dataclass(frozen=True, slots=True)
class Question:
    """A sample or probe: its name, which never shows its text, what it asks, and the answer that the recipe expects."""

    name: str
    kind: Literal["text", "image", "json"]
    body: Any
    expect: Any = None

    def request(self, expect: Any, *, whole: bool | None = None, tolerance: float = TOLERANCE) -> Request:
        """The golden request that is answered so."""
        body = base64.b64encode(self.body).decode("ascii") if self.kind == "image" else self.body
        content = {"name": self.name, self.kind: body, "expect": expect, "whole": whole, "tolerance": tolerance}
        return Request.model_validate(content)

    def payload(self) -> tuple[bytes, str]:
        """The body to send, and its Content-Type: no answer changes them."""
        return self.request("any").payload()


# float64[labels] of one text or image file, as the checkpoint answers.
Probabilities = Callable[[str | bytes], np.ndarray]


def record(recipe: Recipe, labels: Sequence[str], probabilities_of: Probabilities) -> Golden:
    """The recipe's samples, or probes where it has none, with what the checkpoint answers to each.

    Raises RecipeError for a sample that cannot be read, or whose expected label is not the checkpoint's.
    """
    requests = []
    tolerance = tolerance_of(recipe)
    for question in questions(recipe):
        probabilities = probabilities_of(question.body)
        best = labels[int(probabilities.argmax())]
        if question.expect not in (None, best):
            raise RecipeError(
                f"The recipe expects {question.expect} for {question.name}, but the checkpoint answers {best} "
                f"({probabilities.max():.2f}): correct the sample, or name the checkpoint that you mean."
            )
        answer = expected_answer(recipe, labels, probabilities, tolerance)
        requests.append(question.request(answer, tolerance=tolerance))
    return Golden(requests=requests)


def tolerance_of(recipe: Recipe) -> float:
    """How far the archive's probabilities may be from the checkpoint's: in int8, as far as the recipe allows."""
    if recipe.precision == "int8" and recipe.accuracy is not None:
        return min(max(recipe.accuracy.max_probability_change, TOLERANCE), MAX_TOLERANCE)
    return BF16_TOLERANCE if recipe.precision == "bf16" else TOLERANCE


def questions(recipe: Recipe) -> Iterator[Question]:
    """The recipe's samples, or probes of the task where it has none. Raises RecipeError for one that is no file."""
    if not recipe.samples:
        yield from _probes(recipe)
    for number, sample in enumerate(recipe.samples, 1):
        if sample.image is None:
            kind: Literal["text", "json"] = "json" if sample.text is None else "text"
            yield Question(
                f"{kind} {number}", kind, sample.value if sample.text is None else sample.text, sample.expect
            )
            continue
        file = recipe.directory / sample.image
        if leads_out(file, recipe.directory):
            raise RecipeError(f"The sample {file} is a link out of the recipe's directory: put a copy in its place.")
        if instead := what_stands_at(file, json_is_data=recipe.handler is not None):
            raise RecipeError(f"The sample {file} is {instead}.")
        try:
            yield Question(recipe.public_name(sample.image), "image", file.read_bytes(), sample.expect)
        except OSError as error:
            raise RecipeError(f"The sample {file} cannot be read: {error.strerror}.") from None


def _probes(recipe: Recipe) -> Iterator[Question]:
    if recipe.kind.section == "text":
        texts = SHORT_PROBE_TEXTS if recipe.long_text == "error" else (*SHORT_PROBE_TEXTS, LONG_PROBE_TEXT)
        yield from (Question(f"probe {number}", "text", text) for number, text in enumerate(texts, 1))
    if recipe.kind.section != "image":
        return
    rng = np.random.default_rng(PROBE_SEED)
    for number, height in enumerate(PROBE_HEIGHTS, 1):
        coarse = Image.fromarray(rng.integers(0, 256, (3, 4, 3), np.uint8))
        stream = io.BytesIO()
        # Bitmaps: their bytes depend on no compressor's version.
        coarse.resize((PROBE_WIDTH, height), Image.Resampling.BICUBIC).save(stream, "BMP")
        yield Question(f"probe {number}", "image", stream.getvalue())


def expected_answer(
    recipe: Recipe, labels: Sequence[str], probabilities: np.ndarray, tolerance: float = TOLERANCE
) -> dict[str, Any]:
    """What a handler must answer, as far as it is decided: where two scores are close, their order is left open."""
    order = probabilities.argsort()[::-1]
    apart = probabilities[order][:-1] - probabilities[order][1:] > 2 * tolerance
    decided = len(labels) if apart.all() else int(apart.argmin())
    rounded = probabilities.round(DECIMALS).tolist()
    best = [{"label": labels[index], "score": rounded[index]} for index in order[:decided]]
    if recipe.kind.section == "image":
        # Whatever their order, the nth best score is as near as each label's.
        others = [{"score": rounded[index]} for index in order[decided:]]
        return {"dishes": [*best, *others][: recipe.top_k]}
    scores = {"scores": dict(zip(labels, rounded, strict=True))}
    return best[0] | scores if best else scores


def read(path: Path) -> Golden | None:
    """An archive's golden requests; None where it has none. Raises ArchiveError and GoldenError."""
    with open_archive(path) as zip_file:
        content = read_member(zip_file, GOLDEN, MAX_GOLDEN_BYTES)
        if not content and GOLDEN not in zip_file.namelist():
            return None
    try:
        return Golden.model_validate_json(content)
    except ValidationError:
        raise GoldenError(f"{GOLDEN} of {path} is not readable: build the archive again.") from None


def differences(
    expected: Any, got: Any, tolerance: float, where: str = "answer", *, whole: bool = False
) -> Iterator[str]:
    """Each place where `got` does not hold what is expected: what it is, and what it should be.

    A `whole` answer holds nothing more either.
    """
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        for key, value in expected.items():
            if key in got:
                yield from differences(value, got[key], tolerance, f"{where}.{key}", whole=whole)
            else:
                yield f"{where}.{key} is missing"
        yield from (f"{where}.{key} is not expected" for key in got if whole and key not in expected)
    elif isinstance(expected, list) and isinstance(got, list) and _fits(len(expected), len(got), whole):
        for index, value in enumerate(expected):
            yield from differences(value, got[index], tolerance, f"{where}[{index}]", whole=whole)
    elif _is_number(expected) and _is_number(got):
        slack = tolerance * max(1.0, abs(expected)) if isinstance(expected, float) else tolerance
        if not abs(float(expected) - float(got)) <= slack:
            yield f"{where} is {got:.6g}, not {expected:.6g}"
    elif type(expected) is not type(got) or expected != got:
        yield f"{where} is {_short(got)}, not {_short(expected)}"


def _fits(expected: int, got: int, whole: bool) -> bool:
    """Whether a list is long enough, and not too long."""
    return got == expected if whole else got >= expected


def _is_number(value: Any) -> bool:
    """Whether it is a number that a float can hold: JSON has no bound."""
    return isinstance(value, float) or (type(value) is int and abs(value) <= sys.float_info.max)


def _short(value: Any) -> str:
    return f"a {type(value).__name__} of {len(value)}" if isinstance(value, (dict, list)) else repr(value)
