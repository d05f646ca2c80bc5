"""The recipe: one TOML file that says what goes into an archive and how it is served."""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from packageurl import PackageURL
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from marsmith.errors import RecipeError
from marsmith.serving import EXPLAIN_RUNS, LongText

RECIPE_FILE = "recipe.toml"
# What TorchServe can route: it refuses a name with "..", and puts name and version into URLs.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$"
HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w.-]+)?$", re.ASCII)
HUB_COMMIT = re.compile(r"^[0-9a-f]{40}$")

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
    """A request that the archive must answer as the checkpoint does, and the label that you expect of both."""

    text: str | None = None
    image: Path | None = None
    expect: str | None = None

    @model_validator(mode="after")
    def _one_input(self) -> Sample:
        if (self.text is None) == (self.image is None):
            raise ValueError("give either text or image")
        return self


class Recipe(_Section):
    """What `marsmith build` needs to know. Paths are relative to the recipe's directory.

    `license` is an SPDX expression; `base`, written as a hub id or a package URL, is read as a package URL.
    """

    name: RoutableName
    version: RoutableName = "1.0"
    description: str | None = Field(None, min_length=1)
    license: str | None = None
    base: str | None = None
    task: Literal["sentiment", "food"]
    checkpoint: str = Field(min_length=1)
    revision: str | None = None
    allow_pickle: bool = False
    precision: Literal["fp32"] = "fp32"
    labels: list[str] | None = None
    top_k: int = Field(5, ge=1)
    normalise: Literal["none", "tweet"] = "none"
    long_text: LongText = "truncate"
    explain: bool = False
    nutrition: Path | None = None
    serving: Serving = Serving()
    samples: list[Sample] = []
    directory: Path = Field(exclude=True)
    toml: bytes = Field(exclude=True, repr=False)

    @field_validator("labels")
    @classmethod
    def _distinct(cls, labels: list[str] | None) -> list[str] | None:
        if labels is not None and (len(set(labels)) != len(labels) or "" in labels):
            raise ValueError("labels must be distinct and not empty")
        return labels

    @field_validator("license")
    @classmethod
    def _spdx(cls, expression: str) -> str:
        try:
            return canonicalize_license_expression(expression)
        except InvalidLicenseExpression:
            raise ValueError(
                f"{expression!r} is no SPDX licence expression: write it as in 'Apache-2.0' or 'CC-BY-4.0 AND MIT' "
                "(spdx.org/licenses), or as 'LicenseRef-NAME' when SPDX does not list it"
            ) from None

    @field_validator("base")
    @classmethod
    def _package_url(cls, base: str) -> str:
        """The package URL of a hub id. Its commit may be missing, but a branch or tag, which moves, is refused."""
        try:
            purl = PackageURL.from_string(f"pkg:huggingface/{base}" if HUB_ID.match(base) else base)
        except ValueError:
            raise ValueError(
                f"{base!r} names no checkpoint: write a hub id as in 'owner/name@COMMIT', without @COMMIT where "
                "it is unknown, or a package URL as in 'pkg:pypi/name@1.0'"
            ) from None
        if purl.type == "huggingface" and purl.version and not HUB_COMMIT.match(purl.version):
            raise ValueError(
                f"{purl.version!r} is no commit of the hub, and branches and tags move: "
                "write the 40 hexadecimal digits of the commit, or leave it out"
            )
        return purl.to_string()

    @model_validator(mode="after")
    def _fits_task(self) -> Recipe:
        if self.task != "sentiment" and self.normalise != "none":
            raise ValueError("normalise is for the sentiment task only")
        if self.task != "sentiment" and self.long_text != "truncate":
            raise ValueError("long_text is for the sentiment task only")
        if self.task != "food" and self.nutrition is not None:
            raise ValueError("nutrition is for the food task only")
        return self

    @property
    def explain_runs(self) -> int:
        """Runs of the network for one explanation; 0 where none is given."""
        return EXPLAIN_RUNS if self.explain else 0

    def public_name(self, path: Path) -> str:
        """What a file of the recipe is called in the archive: an absolute path says something of this machine."""
        return path.name if path.is_absolute() else path.as_posix()

    @classmethod
    def load(cls, path: Path) -> Recipe:
        """Read a recipe file, or the recipe.toml of a directory. Raises RecipeError."""
        file = recipe_file(path)
        try:
            toml = file.read_bytes()
            raw = tomllib.loads(toml.decode("utf-8"))
        except FileNotFoundError:
            raise RecipeError(
                f"There is no recipe at {file}. Name a recipe file or a directory with a {RECIPE_FILE}."
            ) from None
        except (OSError, ValueError) as error:
            raise RecipeError(f"The recipe {file} cannot be read: {error}. It must be a TOML file.") from None
        try:
            return cls.model_validate({**raw, "directory": file.parent.resolve(), "toml": toml})
        except ValidationError as error:
            raise RecipeError(f"The recipe {file} is not right: {_explain(error)}.") from None


def recipe_file(path: Path) -> Path:
    """The recipe file that a user named, or the one of the directory that they named."""
    return path / RECIPE_FILE if path.is_dir() else path


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
