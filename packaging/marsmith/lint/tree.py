"""The members of an archive that exists or will exist, as lint looks at them."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from marsmith.ground.files import open_regular, requirements_text
from marsmith.ground.limits import MAX_HEAD_BYTES, MAX_TEXT_BYTES
from marsmith.mar.bombs import check_limits
from marsmith.mar.directory import read_directory
from marsmith.mar.members import Members, Source
from marsmith.mar.problems import Problem, Unreadable
from marsmith.mar.proof import Seen
from marsmith.mar.reader import open_archive
from marsmith.mar.structure import read_members

# Everything that a damaged, encrypted or vanished member was seen to raise when it is read.
READ_ERRORS = (OSError, EOFError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error)


# Where a finding lies that belongs to no member.
ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class Tree:
    """Member names in the archive's order, a doubled one twice; their sizes in bytes; and how to read one.

    `read` takes a name and how many bytes of its beginning to read, -1 for all. `faults` says of a member, or of
    ARCHIVE, why two readers may unpack it differently. A `sealed` tree is a whole archive; another one is still to be
    completed.
    `beside` has the modules that lie on disk beside what is to be packed, by the names that they are imported by.
    """

    names: Sequence[str]
    sizes: Mapping[str, int]
    read: Callable[[str, int], bytes]
    faults: Mapping[str, str] = field(default_factory=dict)
    sealed: bool = False
    beside: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def of(cls, members: Members) -> Tree:
        """The members that are about to be packed."""
        sources = {str(name): source for name, source in members.items()}

        def read(name: str, count: int = -1) -> bytes:
            source = sources[name]
            if isinstance(source, bytes):
                return source if count < 0 else source[:count]
            with source.open("rb") as stream:
                return stream.read(count)

        return cls(sorted(sources), {name: _size(source) for name, source in sources.items()}, read)

    @property
    def files(self) -> list[str]:
        """The members that are no folders, each once, in the archive's order."""
        return [name for name in dict.fromkeys(self.names) if not name.endswith("/")]

    def head(self, name: str, count: int = MAX_HEAD_BYTES) -> bytes | None:
        """The first `count` bytes of a member; None where there is no such member or it cannot be read."""
        if name not in self.sizes:
            return None
        try:
            return self.read(name, count)
        except READ_ERRORS:
            return None

    def text(self, name: str, limit: int = MAX_TEXT_BYTES) -> str | None:
        """A member as UTF-8 text; None where there is no such member, it is no text, or has more than `limit` bytes."""
        data = self.head(name, limit + 1)
        if data is None or len(data) > limit:
            return None
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def requirements(self, name: str) -> str | None:
        """A requirements file as pip decodes it; None where there is none, or it is no text, or too long."""
        data = self.head(name, MAX_TEXT_BYTES + 1)
        return None if data is None or len(data) > MAX_TEXT_BYTES else requirements_text(data)


def _size(source: Source) -> int:
    if isinstance(source, bytes):
        return len(source)
    try:
        return source.stat().st_size
    except OSError:
        return 0


@contextmanager
def archive_tree(path: Path) -> Iterator[Tree]:
    """The members of an archive that exists. Raises ArchiveError."""
    with open_archive(path) as zip_file:

        def read(name: str, count: int = -1) -> bytes:
            with zip_file.open(name) as stream:
                return stream.read(count)

        infos = zip_file.infolist()
        sizes = {info.filename: info.file_size for info in infos}
        yield Tree([info.filename for info in infos], sizes, read, record_faults(path), sealed=True)


def record_faults(path: Path) -> dict[str, str]:
    """What is wrong with each member's zip records and data, and under ARCHIVE with what belongs to no member.

    Java's ZipInputStream, which reads members one after the other, would not see there what zipfile sees. What would
    explode is not unpacked. Raises OSError.
    """
    problems: list[Problem] = []
    with open_regular(path) as stream:
        try:
            directory = read_directory(stream)
            problems += check_limits(directory)
            if not problems:
                problems += read_members(stream, directory, Seen(), lambda _: None)
        except Unreadable as stop:
            problems.append(stop.problem)
    found: dict[str, str] = {}
    for problem in problems:
        found.setdefault(problem.member or ARCHIVE, problem.message)
    return found
