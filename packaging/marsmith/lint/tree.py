"""The members of an archive that exists or will exist, as lint looks at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from marsmith import mar


@dataclass(frozen=True, slots=True)
class Tree:
    """Member names in the archive's order, a doubled one twice; their sizes in bytes; and how to read one.

    `read` takes a name and how many bytes of its beginning to read, -1 for all.
    """

    names: Sequence[str]
    sizes: Mapping[str, int]
    read: Callable[[str, int], bytes]

    @classmethod
    def of(cls, members: mar.Members) -> Tree:
        """The members that are about to be packed."""
        sources = {str(name): source for name, source in members.items()}

        def read(name: str, count: int = -1) -> bytes:
            source = sources[name]
            if isinstance(source, bytes):
                return source if count < 0 else source[:count]
            with source.open("rb") as stream:
                return stream.read(count)

        sizes = {name: len(one) if isinstance(one, bytes) else one.stat().st_size for name, one in sources.items()}
        return cls(sorted(sources), sizes, read)

    def text(self, name: str) -> str | None:
        """A member as UTF-8 text; None where there is no such member or it is not text."""
        if name not in self.sizes:
            return None
        try:
            return self.read(name, -1).decode("utf-8")
        except UnicodeDecodeError:
            return None


@contextmanager
def archive_tree(path: Path) -> Iterator[Tree]:
    """The members of an archive that exists. Raises ArchiveError."""
    with mar.opened(path) as zip_file:

        def read(name: str, count: int = -1) -> bytes:
            with zip_file.open(name) as stream:
                return stream.read(count)

        infos = zip_file.infolist()
        yield Tree([info.filename for info in infos], {info.filename: info.file_size for info in infos}, read)
