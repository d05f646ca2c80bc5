"""Python modules that lie on disk beside packed ones and were not packed: a handler that imports one needs it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from marsmith.mar.members import Members

MODULE_SUFFIXES = (".py", ".so")
# A handler's directory has some dozens of files; one of data may have any number, and this many are looked at.
MAX_FILES = 10_000


def neighbours(members: Members) -> dict[str, Path]:
    """The modules and packages in the directories that the Python files of an archive's root come from, by name."""
    directories = {
        source.parent
        for name, source in members.items()
        if isinstance(source, Path) and name.suffix == ".py" and len(name.parts) == 1
    }
    found: dict[str, Path] = {}
    for directory in sorted(directories):
        for path in islice(directory.iterdir(), MAX_FILES):
            if path.suffix in MODULE_SUFFIXES or (path / "__init__.py").is_file():
                found.setdefault(path.name.partition(".")[0], path)
    return found
