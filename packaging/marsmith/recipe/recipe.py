"""The recipe: one TOML file that says what goes into an archive and how it is served."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Literal

from packageurl import PackageURL
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import Field, StrictBool, ValidationError, field_validator, model_validator

from marsmith.errors import RecipeError
from marsmith.ground.files import decoded, is_dir, read_regular
from marsmith.ground.limits import MAX_TEXT_BYTES
from marsmith.ground.serving import EXPLAIN_RUNS, Decode, LongText, Precision
from marsmith.ground.values import Count, FilePath, ModelName, ModelVersion, Named, OwnPath, Section, Share
from marsmith.ground.wording import explained
from marsmith.recipe.sample import Sample
from marsmith.recipe.tasks import TASKS, Task, TaskName, owners

RECIPE_FILE = "recipe.toml"
# What a recipe knows of its own file, and no file says.
OUR_KEYS = frozenset({"directory", "toml"})
HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w.-]+)?\Z", re.ASCII)
HUB_COMMIT = re.compile(r"^[0-9a-f]{40}\Z")
REQUIREMENT = re.compile(r"^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)==(\S+)\Z", re.ASCII)
# What stands at an archive's root beside the handler, so that a module of that name would never be imported.
ROOT_FOLDERS = ("handlers", "model")
# Keys that say something of a handler of one's own.
HANDLER_KEYS = ("extra_files", "requirements")


class Serving(Section):
    """How TorchServe runs the model. Every key becomes one of model-config.yaml."""

    workers: Count = Field(1, description="worker processes; each maps the same weights")
    threads: Count | None = Field(None, description="threads of one worker; without it, its share of the cores")
    batch_size: Count = Field(16, description="requests in a batch, at most")
    max_batch_delay_ms: Count = Field(
        1, description="how long a batch waits for company, a lone request always; TorchServe reads 0 as 100"
    )
    response_timeout_s: Count = Field(60, description="a batch that takes longer ends its worker")
    startup_timeout_s: Count = Field(120, description="a worker that loads longer is given up")
    job_queue_size: Count = Field(200, description="requests that may wait; the next one is answered 503")
    max_retry_timeout_s: Count = Field(30, description="how long a crashing worker is started again")


class AccuracyLimits(Section):
    """How far a network of reduced precision may be from the checkpoint's own answers, and what is asked of both.

    `inputs` is a file with one text a line, or a directory of image files.
    """

    inputs: FilePath
    min_label_agreement: Share = 0.99
    max_probability_change: Share = 0.1


class Recipe(Section):
    """What `marsmith build` needs to know. Paths are relative to the recipe's directory.

    What an archive holds as it is (`handler`, `extra_files`, the images of `samples`) lies below it; what is only read
    (`checkpoint`, `nutrition`, `accuracy.inputs`) may lie anywhere.

    `license` is an SPDX expression; `base`, written as a hub id or a package URL, is read as a package URL. With a
    `handler` of one's own, `extra_files` lie in the archive's model/ by the names that they have here.
    """

    name: ModelName
    version: ModelVersion = "1.0"
    description: str | None = Field(None, min_length=1)
    license: str | None = None
    base: str | None = None
    task: TaskName
    handler: OwnPath | None = None
    extra_files: list[OwnPath] = Field([])
    requirements: list[str] = Field([])
    checkpoint: Named | None = None
    revision: Named | None = None
    allow_pickle: StrictBool = False
    precision: Precision = "fp32"
    labels: list[str] | None = None
    top_k: Count = 5
    normalise: Literal["none", "tweet"] = "none"
    long_text: LongText = "truncate"
    decode: Decode = "scaled"
    explain: StrictBool = False
    nutrition: FilePath | None = None
    serving: Serving = Serving()
    accuracy: AccuracyLimits | None = None
    samples: list[Sample] = Field([])
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

    @field_validator("handler")
    @classmethod
    def _module(cls, handler: Path) -> Path:
        if handler.suffix != ".py":
            raise ValueError("name a Python file, as in 'rating.py'")
        if handler.stem in ROOT_FOLDERS:
            raise ValueError(f"a folder of the archive is called {handler.stem}: rename the file")
        return handler

    @field_validator("requirements")
    @classmethod
    def _pins(cls, requirements: list[str]) -> list[str]:
        packages: dict[str, str] = {}
        for requirement in requirements:
            match = REQUIREMENT.match(requirement)
            try:
                Version(match[3] if match else "")
            except ValueError:  # InvalidVersion, or a number with more digits than Python reads
                raise ValueError(
                    f"{requirement!r} is not one version of one package: write it as in 'regex==2024.11.6'"
                ) from None
            name = package_of(requirement)
            if name in packages:
                raise ValueError(f"{packages[name]!r} and {requirement!r} are of one package: keep one of them")
            packages[name] = requirement
        return requirements

    @model_validator(mode="after")
    def _fits_task(self) -> Recipe:
        for key in sorted(self.model_fields_set):
            if (tasks := owners(key)) and self.task not in tasks:
                raise ValueError(f"{key} is for the {' and '.join(tasks)} task{'s' * (len(tasks) > 1)} only")
        if self.kind.section and self.checkpoint is None:
            raise ValueError("the key checkpoint is missing")
        if self.precision == "int8" and self.accuracy is None:
            raise ValueError(
                'precision "int8" needs a table [accuracy] with the key inputs: a file with one text a line, or a '
                "directory of image files, on which the network must agree with the checkpoint"
            )
        return self

    @model_validator(mode="after")
    def _fits_handler(self) -> Recipe:
        own = self.handler is not None
        if not own and not self.kind.section:
            raise ValueError("the custom task needs a handler: name your file, as in handler = 'rating.py'")
        for key in HANDLER_KEYS:
            if not own and getattr(self, key):
                raise ValueError(f"{key} is for a handler of your own only: name it with the key handler")
        for requirement in self.requirements:
            if package_of(requirement) in self.kind.requirements:
                raise ValueError(f"requirements: {requirement!r} is what the {self.task} task brings: leave it out")
        for number, sample in enumerate(self.samples, start=1):
            if not own and sample.value is not None:
                raise ValueError(f"samples {number}: json is for a handler of your own only: give text or image")
            if not own and self.kind.section and getattr(sample, self.kind.section) is None:
                raise ValueError(f"samples {number}: the {self.task} task reads {self.kind.section}s: give one")
            if sample.expect is not None and isinstance(sample.expect, str) == own:
                remedy = "the least of its answer, as in {rating = 4.2}" if own else "the label, as in 'positive'"
                whose = "a handler of your own" if own else "the checkpoint"
                raise ValueError(f"samples {number}: expect of {whose} is {remedy}")
        return self

    @property
    def kind(self) -> Task:
        """What the task means."""
        return TASKS[self.task]

    @property
    def entry(self) -> str:
        """The file at the archive's root that TorchServe loads."""
        return self.handler.name if self.handler else f"{self.task}.py"

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
            return cls.parse(read_regular(file, MAX_TEXT_BYTES), file)
        except FileNotFoundError:
            raise RecipeError(
                f"There is no recipe at {file}. Name a recipe file or a directory with a {RECIPE_FILE}."
            ) from None
        except (OSError, ValueError) as error:
            raise _unreadable(file, error) from None

    @classmethod
    def parse(cls, toml: bytes, file: Path) -> Recipe:
        """The recipe that `file` says, or would say if it held `toml`. Raises RecipeError."""
        try:
            raw = tomllib.loads(decoded(toml))
        except (ValueError, RecursionError) as error:
            raise _unreadable(file, error) from None
        for key in OUR_KEYS & raw.keys():
            raise RecipeError(f"The recipe {file} is not right: it has a key {key} that nobody reads.")
        try:
            return cls.model_validate({**raw, "directory": file.parent.resolve(), "toml": toml})
        except ValidationError as error:
            raise RecipeError(f"The recipe {file} is not right: {explained(error, SECTIONS)}.") from None


def _unreadable(file: Path, error: Exception) -> RecipeError:
    reason = getattr(error, "strerror", None) or error
    return RecipeError(f"The recipe {file} cannot be read: {reason}. It must be a TOML file.")


def recipe_file(path: Path) -> Path:
    """The recipe file that a user named, or the one of the directory that they named."""
    return path / RECIPE_FILE if is_dir(path) else path


def package_of(requirement: str) -> str:
    """The canonical name of the package of a requirement NAME==VERSION."""
    return canonicalize_name(requirement.partition("==")[0])


# The tables of a recipe by name; the recipe itself has none.
SECTIONS: dict[str, type[Section]] = {"": Recipe, "serving": Serving, "accuracy": AccuracyLimits, "samples": Sample}
