"""The targets of a build by their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from marsmith.errors import TargetError
from marsmith.ground.progress import Progress
from marsmith.ground.serving import Engine
from marsmith.recipe.recipe import Recipe
from marsmith.targets import djl, oci, sagemaker
from marsmith.targets.target import Packed, Target

TargetName = Literal["mar", "sagemaker", "djl", "oci"]
MAR: TargetName = "mar"
TARGETS: dict[TargetName, Target] = {"sagemaker": sagemaker, "djl": djl, "oci": oci}


@dataclass(frozen=True, slots=True)
class Artefact:
    """One file that a build wrote; its size is in bytes."""

    target: TargetName
    path: Path
    size: int


def chosen(targets: Iterable[str]) -> list[TargetName]:
    """The targets that were asked for, each once. Raises TargetError for an unknown one."""
    known = get_args(TargetName)
    asked = list(dict.fromkeys(targets))
    for name in asked:
        if name not in known:
            raise TargetError(f"There is no target {name!r}: take {', '.join(known[:-1])} or {known[-1]}.")
    return [name for name in known if name in asked] or [MAR]


def check(targets: Iterable[TargetName], recipe: Recipe, engine: Engine | None = None) -> None:
    """Raise TargetError for a model that one of the targets cannot serve; the engine is None before it is known."""
    for name in targets:
        if name != MAR:
            TARGETS[name].check(recipe, engine)


def write(targets: Iterable[TargetName], packed: Packed, out: Path, progress: Progress) -> Iterator[Artefact]:
    """Write the files of each target into the directory `out`. Raises ArchiveError."""
    for name in targets:
        progress(f"writing for {name}")
        for path in [packed.archive] if name == MAR else TARGETS[name].write(packed, out):
            yield Artefact(name, path, path.stat().st_size)
