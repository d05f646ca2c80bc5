"""Files on disk before they are packed: M401, M404, M405, M410 and M412."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from marsmith.ground.limits import MAX_TEXT_BYTES
from marsmith.ground.names import unsafe
from marsmith.lint.findings import Finding
from marsmith.lint.names import lint_case
from marsmith.lint.secrets import lint_secret


def lint_sources(root: Path, files: Iterable[Path]) -> list[Finding]:
    """What would go wrong when `files` are packed, which should lie below the directory `root`.

    A file is named by its path from `root`, links not followed. What lies in a file is read only to look for secrets.
    """
    named = {_name(root, file): file for file in files}
    findings = list(lint_case(named))
    for name, file in named.items():
        findings += _lint_file(root, name, file)
    return findings


def _name(root: Path, file: Path) -> str:
    return Path(os.path.relpath(file, root)).as_posix()


def _lint_file(root: Path, name: str, file: Path) -> Iterator[Finding]:
    try:
        inside = file.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name with NUL
        inside = True
    if not inside:
        yield Finding(
            "M412",
            name,
            "It leads out of its directory, and what lies elsewhere on this machine would be packed.",
            "Put a copy of the file in the place of the link.",
        )
        return
    if reason := unsafe(name):
        yield Finding("M401", name, f"The name {reason}.", "Rename the file.")
    text = _beginning(file)
    if text is None:
        yield Finding("M410", name, "It is no file that can be read.", "Correct its rights, or leave it out.")
    else:
        yield from lint_secret(name, b"" if b"\0" in text else text)


def _beginning(file: Path) -> bytes | None:
    """The first bytes of a file; None for what is no regular file, since a pipe would wait, or cannot be read."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return None
        with file.open("rb") as stream:
            return stream.read(MAX_TEXT_BYTES)
    except (OSError, ValueError):
        return None
