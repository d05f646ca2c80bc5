"""Collect the files of an archive: each member has one source, and no link leads out of where it was found."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from marsmith.errors import ArchiveError
from marsmith.mar.members import DIGESTS, MANIFEST, SIGNATURE

DROPPED_DIRECTORIES = frozenset({"__pycache__", "__MACOSX"})
# Archives are among them: who packs the directory that they are written into does not want the last build.
DROPPED_ENDINGS = (".pyc", ".DS_Store", ".mar")
RECORDS = tuple(PurePosixPath(name) for name in (MANIFEST, DIGESTS, SIGNATURE))


class Sources:
    """What was collected so far: `members` maps each name in the archive to the file that it comes from."""

    def __init__(self, output: Path) -> None:
        """`output` is what will be written; it is never packed into itself."""
        self.members: dict[PurePosixPath, Path] = {}
        self._output = os.path.realpath(output)
        # Who has a name, and who was the first to need a directory: a name cannot be both.
        self._owners: dict[PurePosixPath, object] = dict.fromkeys(RECORDS, "marsmith")
        self._directories: dict[PurePosixPath, object] = {RECORDS[0].parent: "marsmith"}

    def add_file(self, path: Path, what: str) -> None:
        """Take one file that the user named into the archive's root; `what` says which one it is. Raises ArchiveError.

        A link is followed wherever it leads: it was named.
        """
        if not os.path.lexists(path):
            raise ArchiveError(f"There is no {what} {path}: check the path.")
        if path.is_dir():
            raise ArchiveError(
                f"The {what} {path} is a directory: name a file, and pack what a directory holds with --extra-files."
            )
        self._add(PurePosixPath(path.name), path)

    def add_extra(self, pattern: str) -> None:
        """Take a file, what a directory holds, or what a glob matches, each into the archive's root.

        Caches and hidden directories are dropped where they are found, never where they are named. Raises ArchiveError.
        """
        named = _is_name(pattern)
        for path in [Path(pattern)] if named else self._matches(pattern):
            if not named and path.is_symlink():
                _follow(path, path.parent.resolve())
            if path.is_dir():
                for name, file in walk(path, self._is_packed):
                    self._add(name, file)
            else:
                self.add_file(path, "extra file")

    def _matches(self, pattern: str) -> list[Path]:
        found = _glob(pattern)
        kept = [path for path in found if self._is_packed(path)]
        if kept:
            return kept
        if found:
            raise ArchiveError(f"All that {pattern} matches is of a kind that is never packed, like {found[0]}.")
        if glob.has_magic(pattern):
            raise ArchiveError(f"The pattern {pattern} matches no file: correct it or leave it out of --extra-files.")
        raise ArchiveError(f"There is no extra file {pattern}: check the path.")

    def _is_packed(self, path: Path) -> bool:
        return os.path.realpath(path) != self._output and is_packed(path)

    def _add(self, name: PurePosixPath, path: Path) -> None:
        _check_packable(name, path)
        if name in self.members and self.members[name].samefile(path):
            return
        for taken in (name, *name.parents):
            if taken in self._owners:
                raise _both(self._owners[taken], path, taken)
        if name in self._directories:
            raise _both(self._directories[name], path, name)
        self.members[name] = path
        self._owners[name] = path
        for parent in name.parents:
            self._directories.setdefault(parent, path)


def is_packed(path: Path) -> bool:
    """Whether a file or directory that was found, and not named, goes into archives."""
    if path.is_dir():
        return not path.name.startswith(".") and path.name not in DROPPED_DIRECTORIES
    return not path.name.endswith(DROPPED_ENDINGS)


def walk(directory: Path, packed: Callable[[Path], bool] = is_packed) -> Iterator[tuple[PurePosixPath, Path]]:
    """The files below a directory that are `packed`, with their names relative to it. Raises ArchiveError."""
    root = directory.resolve()
    pending: list[tuple[Path, PurePosixPath, tuple[Path, ...]]] = [(directory, PurePosixPath(), (root,))]
    while pending:
        here, name, above = pending.pop()
        for item in filter(packed, sorted(here.iterdir())):
            real = _follow(item, root) if item.is_symlink() else above[-1] / item.name
            if real in above:
                raise ArchiveError(f"The link {item} leads back to {real}, which holds it: remove the link.")
            if item.is_dir():
                pending.append((item, name / item.name, (*above, real)))
            else:
                yield name / item.name, item


def _both(one: object, other: Path, name: PurePosixPath) -> ArchiveError:
    return ArchiveError(
        f"{one} and {other} both want to be {name} in the archive: rename or leave out one of them, "
        "or name the directory above them, which keeps them apart."
    )


def _is_name(pattern: str) -> bool:
    """Whether it is the name of something rather than a glob. Raises ArchiveError when it is both."""
    if not os.path.lexists(pattern):
        return False
    others = [match for match in _glob(pattern) if match != Path(pattern)]
    if others:
        raise ArchiveError(f"{pattern} is a file and also a pattern that matches {others[0]}: rename one of them.")
    return True


def _glob(pattern: str) -> list[Path]:
    return [Path(match) for match in sorted(glob.glob(pattern))]  # noqa: PTH207 - Path.glob takes no absolute pattern


def _follow(link: Path, root: Path) -> Path:
    """Where a link leads, which must lie below `root`. Raises ArchiveError."""
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):  # a loop is the latter until Python 3.13
        raise ArchiveError(f"The link {link} leads nowhere: remove or repair it.") from None
    if not target.is_relative_to(root):
        raise ArchiveError(
            f"The link {link} leaves {root} and would pack {target}: name that file itself, or put a copy in the "
            "link's place."
        )
    return target


def _check_packable(name: PurePosixPath, path: Path) -> None:
    try:
        str(name).encode("utf-8")
    except UnicodeEncodeError:
        raise ArchiveError(f"The file name {str(path)!r} is not UTF-8, which archives need: rename the file.") from None
    if not path.exists():
        raise ArchiveError(f"The link {path} leads nowhere: remove or repair it.")
    if not path.is_file():
        raise ArchiveError(f"{path} is neither a file nor a directory: only those can be packed.")
    if not os.access(path, os.R_OK):
        raise ArchiveError(f"The file {path} cannot be read: allow it with chmod u+r.")
