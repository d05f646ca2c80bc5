"""What a figure needs beside it: the processor, and the versions of what ran."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Processor:
    """Its name, and the features that the kernel states of it."""

    name: str
    features: frozenset[str]


def processor(file: Path = Path("/proc/cpuinfo")) -> Processor:
    """The first processor of the machine; Arm's have no name, and are called by their architecture."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    pairs = (line.partition(":") for line in reversed(lines))
    facts = {key.strip(): value.strip() for key, _, value in pairs}
    flags = facts.get("flags") or facts.get("Features") or ""
    return Processor(facts.get("model name") or platform.machine(), frozenset(flags.split()))


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The version of Python, and those of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
