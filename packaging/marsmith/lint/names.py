"""M401 to M404 and M407: the names of members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from marsmith.ground.names import folded, unsafe
from marsmith.lint.findings import Finding

LEFTOVERS = frozenset(
    {"__pycache__", "__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini", ".git", ".gitignore", ".gitattributes", ".svn"}
    | {".hg", ".ipynb_checkpoints", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".idea", ".vscode", ".venv"}
)
LEFTOVER_SUFFIXES = (".pyc", ".pyo", ".swp", "~")


def lint_names(names: Sequence[str]) -> Iterator[Finding]:
    """What is wrong with the members' names, doubled ones included."""
    for name in dict.fromkeys(names):
        if reason := unsafe(name):
            yield Finding("M401", name, f"The name {reason}.", "Rename the file, and pack it by a relative path.")
    for name, count in Counter(names).items():
        if count > 1:
            yield Finding("M402", name, f"The archive holds {count} members of this name.", "Keep one of them.")
    files = [name for name in dict.fromkeys(names) if not name.endswith("/")]
    folders = {parent for name in names for parent in _parents(name)}
    for name in files:
        if name in folders:
            yield Finding("M403", name, "The name is a file here and a folder elsewhere.", "Rename one of them.")
    yield from lint_case(files)
    yield from _lint_leftovers(files)


def lint_case(names: Iterable[str]) -> Iterator[Finding]:
    """A finding for each name that a file system without case, or with one Unicode form, takes for an earlier one."""
    first: dict[str, str] = {}
    for name in names:
        earlier = first.setdefault(folded(name), name)
        if earlier != name:
            yield Finding(
                "M404",
                name,
                f"On macOS and Windows it overwrites {earlier}.",
                "Give them names that differ in more than case.",
            )


def _parents(name: str) -> Iterator[str]:
    parts = name.split("/")[:-1]
    return accumulate(parts, lambda parent, part: f"{parent}/{part}")


def _lint_leftovers(files: Iterable[str]) -> Iterator[Finding]:
    """One finding for a folder of leftovers, not one for each file in it."""
    found = {leftover: None for name in files if (leftover := _leftover(name))}
    for name in found:
        yield Finding("M407", name, "It is a leftover that no server needs.", "Leave it out of the archive.")


def _leftover(name: str) -> str | None:
    parts = name.split("/")
    for depth, part in enumerate(parts, start=1):
        if part in LEFTOVERS:
            return "/".join(parts[:depth])
    return name if name.endswith(LEFTOVER_SUFFIXES) else None
