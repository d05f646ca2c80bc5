"""What the values of a recipe's keys are, stricter than pydantic: a text is no number, and a number no switch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

# What TorchServe can route: it refuses a name with "..", and puts name and version into URLs.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$"

T = TypeVar("T", str, Path)


class Section(BaseModel):
    """A table of a recipe, or the recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _without_nul(value: T) -> T:
    if "\0" in str(value):
        raise ValueError("no name of a file holds a NUL character: take it out")
    return value


RoutableName = Annotated[str, Field(pattern=NAME_PATTERN, max_length=64)]
FilePath = Annotated[Path, AfterValidator(_without_nul)]
# A directory, or what the hub calls a checkpoint.
Named = Annotated[str, Field(min_length=1), AfterValidator(_without_nul)]
Count = Annotated[int, Field(strict=True, ge=1)]
# A JSON or TOML number from 0 to 1; 1 may be written without a point.
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
