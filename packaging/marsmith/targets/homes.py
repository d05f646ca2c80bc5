"""The targets of a build by their names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from marsmith.errors import TargetError
from marsmith.targets import djl, oci, sagemaker
from marsmith.targets.packed import Home

Target = Literal["mar", "sagemaker", "djl", "oci"]
MAR: Target = "mar"
HOMES: dict[Target, Home] = {"sagemaker": sagemaker, "djl": djl, "oci": oci}


@dataclass(frozen=True, slots=True)
class Artefact:
    """One file that a build wrote; its size is in bytes."""

    target: Target
    path: Path
    size: int


def chosen(targets: Iterable[str]) -> list[Target]:
    """The targets that were asked for, each once. Raises TargetError for an unknown one."""
    known = get_args(Target)
    asked = list(dict.fromkeys(targets))
    for name in asked:
        if name not in known:
            raise TargetError(f"There is no target {name!r}: take {', '.join(known[:-1])} or {known[-1]}.")
    return [name for name in known if name in asked] or [MAR]
