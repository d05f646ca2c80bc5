"""The members of an archive that exists or will exist, as lint looks at them."""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from marsmith import layout, mar
from marsmith.limits import MAX_HEAD_BYTES, MAX_TEXT_BYTES

# Everything that a damaged, encrypted or vanished member was seen to raise when it is read.
READ_ERRORS = (OSError, EOFError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error)


@dataclass(frozen=True, slots=True)
class Tree:
    """Member names in the archive's order, a doubled one twice; their sizes in bytes; and how to read one.

    `read` takes a name and how many bytes of its beginning to read, -1 for all. `faults` says of a member why
    TorchServe does not unpack it as it is. A `sealed` tree is a whole archive; another one is still to be completed.
    `beside` has the modules that lie on disk beside what is to be packed, by the names that they are imported by.
    """

    names: Sequence[str]
    sizes: Mapping[str, int]
    read: Callable[[str, int], bytes]
    faults: Mapping[str, str] = field(default_factory=dict)
    sealed: bool = False
    beside: Mapping[str, Path] = field(default_factory=dict)

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


def _size(source: mar.Source) -> int:
    if isinstance(source, bytes):
        return len(source)
    try:
        return source.stat().st_size
    except OSError:
        return 0


@contextmanager
def archive_tree(path: Path) -> Iterator[Tree]:
    """The members of an archive that exists. Raises ArchiveError."""
    with mar.opened(path) as zip_file:

        def read(name: str, count: int = -1) -> bytes:
            with zip_file.open(name) as stream:
                return stream.read(count)

        infos = zip_file.infolist()
        faults = {info.filename: fault for info in infos if (fault := _fault(info))}
        if infos and (first := min(infos, key=lambda info: info.header_offset)).header_offset > 0:
            faults[first.filename] = "does not stand at the file's beginning, so the archive looks empty"
        sizes = {info.filename: info.file_size for info in infos}
        yield Tree([info.filename for info in infos], sizes, read, faults, sealed=True)


def _fault(info: zipfile.ZipInfo) -> str | None:
    """Why java.util.zip.ZipInputStream, which reads members one after the other, does not see what zipfile sees."""
    if info.flag_bits & 1:
        return "is encrypted"
    if info.compress_type not in (layout.STORED, layout.DEFLATED):
        return "is compressed by a method other than deflate"
    if info.compress_type == layout.STORED and info.flag_bits & layout.DESCRIPTOR_FLAG:
        return "is stored with its size behind it"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a symbolic link, of which only the target's name would be unpacked, as text"
    if "\0" in info.orig_filename:
        return "has a NUL in its name"
    if not info.flag_bits & layout.UTF8_FLAG and not _is_utf8(info.filename):
        return "has a name that is not UTF-8"
    return None


def _is_utf8(name: str) -> bool:
    """Whether a name that zipfile took for code page 437 is UTF-8, which is what Java takes it for."""
    try:
        name.encode("cp437").decode("utf-8")
    except UnicodeError:
        return False
    return True
