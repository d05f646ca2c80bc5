"""What the packer of an archive vouched for, recorded in MAR-INF/MANIFEST.json beside what TorchServe reads there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from marsmith.errors import ArchiveError
from marsmith.ground.untrusted import mapping, strings

# TorchServe's reader ignores keys that it does not know.
KEY, ASSUMED, LINT = "packing", "assumed", "lint"
# The name of a module or of a distribution (PEP 508), which differ in "." and "-" only.
NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")
# Lint's findings of these archives are warnings, errors among them.
WARN = "warn"


def record(assumed: Iterable[str], lint: str) -> dict[str, Any]:
    """The manifest's section, empty when nothing was vouched for. Raises ArchiveError for what is not a name."""
    names = sorted(set(assumed))
    for name in names:
        if not NAME.fullmatch(name):
            raise ArchiveError(f"{name!r} cannot be assumed: give the name of one module or package.")
    section = ({ASSUMED: names} if names else {}) | ({LINT: lint} if lint == WARN else {})
    return {KEY: section} if section else {}


def assumed(manifest: Mapping[str, Any]) -> list[str]:
    """The modules or packages that a manifest says the server has."""
    return [name for name in strings(mapping(manifest.get(KEY)).get(ASSUMED)) if NAME.fullmatch(name)]


def lint_was_overruled(manifest: Mapping[str, Any]) -> bool:
    """Whether a manifest says that the archive was packed whatever lint found."""
    return mapping(manifest.get(KEY)).get(LINT) == WARN
