"""Golden requests, MAR-INF/golden.json: requests, and the answers that the checkpoint itself gives them.

The answers are computed by PyTorch and transformers, never by a handler: what serves the archive is measured by them.
"""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from marsmith import mar
from marsmith.errors import GoldenError, RecipeError
from marsmith.limits import MAX_GOLDEN_BYTES
from marsmith.recipe import Recipe
from marsmith.serving import dump_json

# Scores of one fp32 network by another engine and CPU; a wrong token, pixel or resampling is off by 1e-3 and more.
TOLERANCE = 1e-4
# A tolerance that lets a wrong label's score pass tests nothing.
MAX_TOLERANCE = 0.1
# Digits past the tolerance say nothing, and the last ones differ between CPUs, which would make the archives differ.
DECIMALS = 5
# What a recipe without samples is tested with.
PROBE_TEXTS = ("ok", "What a great day at the beach with @user, thank you! 😀 http", "so tired of this weather " * 40)
PROBE_SEED, PROBE_WIDTH, PROBE_HEIGHTS = 7, 64, (48, 64)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Request(_Section):
    """One request, a text or an image file in base64, and the least that its answer must hold.

    In `expect`, numbers may differ by `tolerance`, an object may have more keys, a list more elements.
    """

    name: str = Field(min_length=1)
    text: str | None = None
    image: str | None = None
    expect: dict[str, Any] = Field(min_length=1)
    tolerance: float = Field(ge=0, le=MAX_TOLERANCE)

    @model_validator(mode="after")
    def _one_input(self) -> Request:
        if (self.text is None) == (self.image is None):
            raise ValueError("give either text or image")
        self.body()  # which must be base64
        return self

    def body(self) -> str | bytes:
        """The text, or the bytes of the image file."""
        return self.text if self.text is not None else base64.b64decode(self.image or "", validate=True)


class Golden(_Section):
    """The whole file."""

    format: Literal[1] = 1
    requests: list[Request]

    def to_json(self) -> bytes:
        """The file's bytes, the same for the same requests. Raises RecipeError when they are too many to be read."""
        content = dump_json(self.model_dump(mode="json", exclude_none=True))
        if len(content) > MAX_GOLDEN_BYTES:
            raise RecipeError(f"The samples take more than {MAX_GOLDEN_BYTES:,} bytes: choose fewer or smaller ones.")
        return content


class Reference(Protocol):
    """The checkpoint as Hugging Face runs it (reference.py)."""

    def probabilities(self, body: str | bytes) -> np.ndarray:
        """float64[labels] of one text or image file."""


def record(recipe: Recipe, labels: Sequence[str], reference: Reference) -> Golden:
    """The recipe's samples, or probes where it has none, with the checkpoint's answers.

    Raises RecipeError for a sample that cannot be read, or whose expected label is not the checkpoint's.
    """
    requests = []
    for name, body, label in _samples(recipe) if recipe.samples else _probes(recipe.task):
        probabilities = reference.probabilities(body)
        best = labels[int(probabilities.argmax())]
        if label not in (None, best):
            raise RecipeError(
                f"The recipe expects {label} for {name}, but the checkpoint answers {best} "
                f"({probabilities.max():.2f}): correct the sample, or name the checkpoint that you mean."
            )
        content = {"text": body} if isinstance(body, str) else {"image": base64.b64encode(body).decode("ascii")}
        expect = expected_answer(recipe, labels, probabilities)
        requests.append(Request.model_validate({"name": name, **content, "expect": expect, "tolerance": TOLERANCE}))
    return Golden(requests=requests)


def _samples(recipe: Recipe) -> Iterator[tuple[str, str | bytes, str | None]]:
    """Each sample's name, which never shows its text, its body and its label."""
    for number, sample in enumerate(recipe.samples, 1):
        if sample.text is not None:
            yield f"text {number}", sample.text, sample.expect
            continue
        if sample.image is None:
            continue
        file = recipe.directory / sample.image
        try:
            yield recipe.public_name(sample.image), file.read_bytes(), sample.expect
        except OSError as error:
            raise RecipeError(f"The sample {file} cannot be read: {error.strerror}.") from None


def _probes(task: str) -> Iterator[tuple[str, str | bytes, None]]:
    if task == "sentiment":
        yield from ((f"probe {number}", text, None) for number, text in enumerate(PROBE_TEXTS, 1))
        return
    rng = np.random.default_rng(PROBE_SEED)
    for number, height in enumerate(PROBE_HEIGHTS, 1):
        coarse = Image.fromarray(rng.integers(0, 256, (3, 4, 3), np.uint8))
        stream = io.BytesIO()
        # Bitmaps: their bytes depend on no compressor's version.
        coarse.resize((PROBE_WIDTH, height), Image.Resampling.BICUBIC).save(stream, "BMP")
        yield f"probe {number}", stream.getvalue(), None


def expected_answer(recipe: Recipe, labels: Sequence[str], probabilities: np.ndarray) -> dict[str, Any]:
    """What a handler must answer, as far as it is decided: where two scores are close, their order is left open."""
    order = probabilities.argsort()[::-1]
    apart = probabilities[order][:-1] - probabilities[order][1:] > 2 * TOLERANCE
    decided = len(labels) if apart.all() else int(apart.argmin())
    rounded = probabilities.round(DECIMALS).tolist()
    best = [{"label": labels[index], "score": rounded[index]} for index in order[:decided]]
    if recipe.task == "food":
        return {"dishes": best[: recipe.top_k]}
    scores = {"scores": dict(zip(labels, rounded, strict=True))}
    return best[0] | scores if best else scores


def read(path: Path) -> Golden | None:
    """An archive's golden requests; None where it has none. Raises ArchiveError and GoldenError."""
    with mar.opened(path) as zip_file:
        content = mar.read(zip_file, mar.GOLDEN, MAX_GOLDEN_BYTES)
        if not content and mar.GOLDEN not in zip_file.namelist():
            return None
    try:
        return Golden.model_validate_json(content)
    except ValidationError:
        raise GoldenError(f"{mar.GOLDEN} of {path} is not readable: build the archive again.") from None


def differences(expected: Any, got: Any, tolerance: float, where: str = "answer") -> Iterator[str]:
    """Each place where `got` does not hold what is expected: what it is, and what it should be."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        for key, value in expected.items():
            yield from differences(value, got.get(key), tolerance, f"{where}.{key}")
    elif isinstance(expected, list) and isinstance(got, list) and len(got) >= len(expected):
        for index, value in enumerate(expected):
            yield from differences(value, got[index], tolerance, f"{where}[{index}]")
    elif _is_number(expected) and _is_number(got):
        if not abs(float(expected) - float(got)) <= tolerance:
            yield f"{where} is {got:.6g}, not {expected:.6g}"
    elif type(expected) is not type(got) or expected != got:
        yield f"{where} is {_short(got)}, not {_short(expected)}"


def _is_number(value: Any) -> bool:
    """Whether it is a number that a float can hold: JSON has no bound."""
    return isinstance(value, float) or (type(value) is int and abs(value) <= sys.float_info.max)


def _short(value: Any) -> str:
    return f"a {type(value).__name__} of {len(value)}" if isinstance(value, (dict, list)) else repr(value)
