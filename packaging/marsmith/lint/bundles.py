"""Modules that a packed zip, wheel or tar file may bring: a handler can unpack it, or put it on the path."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import PurePosixPath

from marsmith.lint.tree import READ_ERRORS, Tree

ZIP_SUFFIXES = (".zip", ".whl", ".egg", ".pyz")
TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
MODULE_SUFFIXES = (".py", ".pyc", ".so", ".pyd")
# A zip file is read whole for the names in its directory, some 100,000 at most; a larger one stays closed.
MAX_BUNDLE_BYTES = 8 << 20
# An archive has one or two such files; so many are read, and the rest stays closed.
MAX_BUNDLES = 20


class Bundles:
    """The packed files of a tree that hold other files. None is read before a name is asked for."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def holding(self, module: str) -> str | None:
        """The packed file that has a module; None when none is known to."""
        parts = set(module.split("."))
        return next((member for member, names in self._names.items() if names is not None and parts <= names), None)

    def closed(self) -> str | None:
        """A packed file whose names are not known; None when all are."""
        return next((member for member, names in self._names.items() if names is None), None)

    @cached_property
    def _names(self) -> dict[str, frozenset[str] | None]:
        """The names of modules, and of folders that hold any, in each packed file; None where they are not known."""
        suffixes = (*ZIP_SUFFIXES, *TAR_SUFFIXES)
        members = [member for member in self._tree.files if member.lower().endswith(suffixes)]
        read = {member: self._names_in(member) for member in members[:MAX_BUNDLES]}
        return read | dict.fromkeys(members[MAX_BUNDLES : MAX_BUNDLES + 1])

    def _names_in(self, member: str) -> frozenset[str] | None:
        if not member.lower().endswith(ZIP_SUFFIXES) or self._tree.sizes[member] > MAX_BUNDLE_BYTES:
            return None
        try:
            with zipfile.ZipFile(io.BytesIO(self._tree.read(member, -1))) as zip_file:
                return frozenset(part for name in zip_file.namelist() for part in _parts(name))
        except READ_ERRORS:
            return frozenset()


def _parts(name: str) -> Iterator[str]:
    """A module's name and the folders above it: any of them may be on the path."""
    path = PurePosixPath(name)
    if path.suffix in MODULE_SUFFIXES:
        yield from path.parts[:-1]
        yield path.name.partition(".")[0]
