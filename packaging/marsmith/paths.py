"""What a path is, for paths that a user wrote: one that the system does not take, or may not look at, is nothing."""

from __future__ import annotations

from pathlib import Path


def is_file(path: Path) -> bool:
    """Whether it leads to a regular file. Path.is_file lets errors out, of a name that is too long for one."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def leads_out(path: Path, directory: Path) -> bool:
    """Whether it lies elsewhere than below a directory, which is resolved, once links are followed."""
    try:
        return not path.resolve().is_relative_to(directory)
    except (OSError, RuntimeError, ValueError):  # a loop is the second until Python 3.13
        return True


def is_dir(path: Path) -> bool:
    """Whether it leads to a directory."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
