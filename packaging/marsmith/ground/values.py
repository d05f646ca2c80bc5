"""What the values of a recipe's keys are, stricter than pydantic: a text is no number, and a number no switch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from marsmith.ground.names import is_device

# What TorchServe can route: it refuses a name with "..", and puts name and version into URLs.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$"
# Both stand in URLs, file names and log lines; with an ending, a name must fit into the 255 bytes of a file's name.
MAX_NAME_CHARACTERS = 64
# What TorchServe's GET /models/NAME/VERSION takes for all versions together.
RESERVED_VERSION = "all"

T = TypeVar("T", str, Path)


class Section(BaseModel):
    """A table of a recipe, or the recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _without_nul(value: T) -> T:
    if "\0" in str(value):
        raise ValueError("no name of a file holds a NUL character: take it out")
    return value


def _below(path: Path) -> Path:
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(
            f"{str(path)!r} does not lie below the recipe's directory: put it there, and name it by its path from there"
        )
    return path


def name_fault(name: str) -> str | None:
    """Why no model should have this name, whatever its letters; None when it may."""
    if len(name) > MAX_NAME_CHARACTERS:
        return f"has {len(name)} characters: use {MAX_NAME_CHARACTERS} at most"
    if is_device(name):
        return "is a device's name on Windows, where no file can have it: choose another"
    return None


def version_fault(version: str) -> str | None:
    """Why no model should have this version, whatever its letters; None when it may."""
    if len(version) > MAX_NAME_CHARACTERS:
        return f"has {len(version)} characters: use {MAX_NAME_CHARACTERS} at most"
    if version == RESERVED_VERSION:
        return "is what TorchServe takes for all versions together: choose another"
    return None


def _checked(fault: Callable[[str], str | None]) -> AfterValidator:
    def check(value: str) -> str:
        if reason := fault(value):
            raise ValueError(f"{value!r} {reason}")
        return value

    return AfterValidator(check)


Routable = Annotated[str, Field(pattern=NAME_PATTERN, max_length=MAX_NAME_CHARACTERS)]
ModelName = Annotated[Routable, _checked(name_fault)]
ModelVersion = Annotated[Routable, _checked(version_fault)]
FilePath = Annotated[Path, AfterValidator(_without_nul)]
# A file that an archive holds as it is: from the recipe's own directory, so that no recipe packs what it may not see.
OwnPath = Annotated[FilePath, AfterValidator(_below)]
# A directory, or what the hub calls a checkpoint.
Named = Annotated[str, Field(min_length=1), AfterValidator(_without_nul)]
Count = Annotated[int, Field(strict=True, ge=1)]
# A JSON or TOML number from 0 to 1; 1 may be written without a point.
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
