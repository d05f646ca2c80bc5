"""The recipe: one TOML file that says what goes into an archive and how it is served."""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from marsmith.errors import RecipeError

RECIPE_FILE = "recipe.toml"
# What TorchServe can route: it refuses a name with "..", and puts name and version into URLs.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$"

RoutableName = Annotated[str, Field(pattern=NAME_PATTERN, max_length=64)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Serving(_Section):
    """How TorchServe runs the model. Every key becomes one of model-config.yaml."""

    workers: int = Field(1, ge=1, description="worker processes; each maps the same weights")
    batch_size: int = Field(16, ge=1, description="requests in a batch, at most")
    max_batch_delay_ms: int = Field(
        5, ge=1, description="how long a batch waits for company; TorchServe reads 0 as 100"
    )
    response_timeout_s: int = Field(60, ge=1, description="a batch that takes longer ends its worker")
    startup_timeout_s: int = Field(120, ge=1, description="a worker that loads longer is given up")
    job_queue_size: int = Field(200, ge=1, description="requests that may wait; the next one is answered 503")
    max_retry_timeout_s: int = Field(30, ge=1, description="how long a crashing worker is started again")


class Sample(_Section):
    """A request to try, and the label that is right for it."""

    text: str | None = None
    image: Path | None = None
    expect: str

    @model_validator(mode="after")
    def _one_input(self) -> Sample:
        if (self.text is None) == (self.image is None):
            raise ValueError("give either text or image")
        return self


class Recipe(_Section):
    """What `marsmith build` needs to know. Paths are relative to the recipe's directory."""

    name: RoutableName
    version: RoutableName = "1.0"
    task: Literal["sentiment", "food"]
    checkpoint: str = Field(min_length=1)
    revision: str | None = None
    allow_pickle: bool = False
    precision: Literal["fp32"] = "fp32"
    labels: list[str] | None = None
    top_k: int = Field(5, ge=1)
    normalise: Literal["none", "tweet"] = "none"
    nutrition: Path | None = None
    serving: Serving = Serving()
    samples: list[Sample] = []
    directory: Path = Field(exclude=True)

    @field_validator("labels")
    @classmethod
    def _distinct(cls, labels: list[str] | None) -> list[str] | None:
        if labels is not None and (len(set(labels)) != len(labels) or "" in labels):
            raise ValueError("labels must be distinct and not empty")
        return labels

    @model_validator(mode="after")
    def _fits_task(self) -> Recipe:
        if self.task != "sentiment" and self.normalise != "none":
            raise ValueError("normalise is for the sentiment task only")
        if self.task != "food" and self.nutrition is not None:
            raise ValueError("nutrition is for the food task only")
        return self

    @classmethod
    def load(cls, path: Path) -> Recipe:
        """Read a recipe file, or the recipe.toml of a directory. Raises RecipeError."""
        file = path / RECIPE_FILE if path.is_dir() else path
        try:
            raw = tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RecipeError(
                f"There is no recipe at {file}. Name a recipe file or a directory with a {RECIPE_FILE}."
            ) from None
        except (OSError, ValueError) as error:
            raise RecipeError(f"The recipe {file} cannot be read: {error}. It must be a TOML file.") from None
        try:
            return cls.model_validate({**raw, "directory": file.parent.resolve()})
        except ValidationError as error:
            raise RecipeError(f"The recipe {file} is not right: {_explain(error)}.") from None


def _explain(error: ValidationError) -> str:
    return "; ".join(_explain_one(dict(detail)) for detail in error.errors())


def _explain_one(detail: dict[str, object]) -> str:
    location = detail["loc"]
    keys = [str(key) for key in location] if isinstance(location, tuple) else []
    where = ".".join(keys)
    if detail["type"] == "extra_forbidden":
        model = Serving if keys[0] == "serving" else Sample if keys[0] == "samples" else Recipe
        close = difflib.get_close_matches(keys[-1], model.model_fields, n=1)
        return f"it has a key {where} that nobody reads" + (f", did you mean {close[0]}?" if close else "")
    if detail["type"] == "missing":
        return f"the key {where} is missing"
    if detail["type"] == "string_pattern_mismatch":
        return f"{where} may hold letters, digits, '_', '-' and single dots, and begins with a letter or digit"
    message = re.sub(r"^Value error, ", "", str(detail["msg"]))
    return f"{where}: {message}" if where else message
