"""The files of an image: its layers laid over one another, with what they delete taken away.

https://github.com/opencontainers/image-spec/blob/main/layer.md. Of a file only what the checks ask about is kept.
"""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import IO, Literal

from marsmith.errors import ImageError
from marsmith.ground.limits import MAX_HEAD_BYTES, MAX_PAPER_BYTES, MAX_TEXT_BYTES
from marsmith.ground.progress import Progress, silent
from marsmith.image import elf
from marsmith.image.archive import Image, layer_members
from marsmith.image.secrets import secret_in

WHITEOUT, OPAQUE, RESERVED = ".wh.", ".wh..wh..opq", ".wh..wh."
# Links that are followed for one name, as Linux has it.
MAX_LINKS = 40
# Debian with Python and TorchServe has some 10,000; each costs memory here.
MAX_FILES = 1_000_000

Kind = Literal["file", "directory", "link", "other"]


@dataclass(frozen=True, slots=True)
class File:
    """One entry of the file system: `path` has no leading slash, `size` is in bytes, `layer` counts from the lowest.

    `machine` is an ELF file's e_machine, `target` where a link leads, `content` what was asked to be kept, `origin` the
    layer and the place in it of the member that holds the bytes: a hard link has those of the file that it names.
    """

    path: str
    kind: Kind
    mode: int
    size: int
    layer: int
    target: str = ""
    machine: int | None = None
    content: bytes | None = None
    origin: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return posixpath.basename(self.path)


@dataclass(frozen=True, slots=True)
class Secret:
    """A file of one layer that is or holds a secret of that kind, deleted by a later layer or not."""

    path: str
    layer: int
    kind: str
    deleted: bool


@dataclass(slots=True)
class Tree:
    """What the container sees, by path; the secrets of all layers; the bytes in the files of each layer."""

    files: dict[str, File] = field(default_factory=dict)
    secrets: list[Secret] = field(default_factory=list)
    unpacked: list[int] = field(default_factory=list)

    def resolve(self, path: str) -> File | None:
        """What a path leads to, links followed; None where that is nothing, or a directory that no layer mentions."""
        return self.files.get(self.real(path) or "")

    def real(self, path: str) -> str | None:
        """The path without a link in it, inside the image; None for links without end."""
        return real_path(path, self.files.get)

    def below(self, directory: str) -> list[File]:
        """The entries below a directory, at any depth, by path; the directory is one that `real` gave."""
        prefix = f"{directory}/" if directory else ""
        return [self.files[path] for path in sorted(self.files) if path.startswith(prefix)]


def real_path(path: str, look: Callable[[str], File | None]) -> str | None:
    """A path from the image's root with its links followed, as a container does; None for links without end.

    `look` gives what lies at a path that has no link before its last part.
    """
    pending, done = [part for part in path.split("/") if part], ""
    links = 0
    while pending:
        part = pending.pop(0)
        here = posixpath.normpath(posixpath.join("/", done, part))[1:]
        found = look(here)
        if found is None or found.kind != "link":
            done = here
            continue
        links += 1
        if links > MAX_LINKS:
            return None
        # Part by part, since what ".." leaves may itself be reached by a link.
        pending = [one for one in found.target.split("/") if one] + pending
        done = "" if found.target.startswith("/") else done
    return done


@dataclass(slots=True)
class _Changes:
    """What one layer does to those below it."""

    files: dict[str, File] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    emptied: set[str] = field(default_factory=set)


def read_tree(image: Image, keep: Callable[[str], bool], progress: Progress = silent) -> Tree:
    """Read every layer once. The content of files whose path is to `keep` stays. Raises ImageError."""
    tree = Tree()
    found: list[tuple[File, str]] = []
    for number, layer in enumerate(image.layers):
        progress(f"reading layer {number + 1} of {len(image.layers)}")
        reader = _LayerReader(tree.files, number, keep)
        with layer_members(image, layer) as members:
            for place, member in enumerate(members):
                reader.add(members, member, place)
                if len(reader.changes.files) + len(tree.files) > MAX_FILES:
                    raise ImageError(f"{image.path} has more than {MAX_FILES:,} files: it is not a server's image.")
        found += reader.secrets
        tree.unpacked.append(sum(file.size for file in reader.changes.files.values()))
        _apply(tree.files, reader.changes)
    tree.secrets = [Secret(file.path, file.layer, kind, tree.files.get(file.path) != file) for file, kind in found]
    return tree


def normal(name: str) -> str:
    """A member's name as a path from the root, without a leading slash."""
    return posixpath.normpath(posixpath.join("/", name)).lstrip("/")


class _LayerReader:
    """The members of one layer, laid over the files of those below: its `changes`, and the `secrets` in its files."""

    def __init__(self, lower: dict[str, File], layer: int, keep: Callable[[str], bool]) -> None:
        self._lower = lower
        self._layer = layer
        self._keep = keep
        self._directories: dict[str, str] = {}
        self.changes = _Changes()
        self.secrets: list[tuple[File, str]] = []

    def add(self, members: tarfile.TarFile, member: tarfile.TarInfo, place: int) -> None:
        """Take the next member of the layer, which is the one at `place`."""
        path = self._path(member.name)
        directory, name = posixpath.split(path)
        if name == OPAQUE:
            self.changes.emptied.add(directory)
        elif name.startswith(RESERVED):
            return
        elif name.startswith(WHITEOUT):
            self.changes.removed.add(posixpath.join(directory, name.removeprefix(WHITEOUT)))
        elif member.islnk():
            self.changes.files[path] = self._hard_link(path, member)
        elif member.isfile():
            stream = members.extractfile(member)
            assert stream is not None  # noqa: S101 - tarfile has one for every regular file
            self._add_regular(
                File(path, "file", member.mode, member.size, self._layer, origin=(self._layer, place)), stream
            )
        else:
            kind_of: Kind = "directory" if member.isdir() else "link" if member.issym() else "other"
            self.changes.files[path] = File(path, kind_of, member.mode, 0, self._layer, member.linkname)
            self._directories.clear()

    def _hard_link(self, path: str, member: tarfile.TarInfo) -> File:
        """The file that a hard link names, under the link's own path."""
        original = self._look(self._path(member.linkname))
        if original is None:  # of a file that is not there, nothing can be said
            return File(path, "other", member.mode, 0, self._layer, member.linkname)
        # One file with two names takes its room once.
        return replace(original, path=path, layer=self._layer, size=0)

    def _add_regular(self, file: File, stream: IO[bytes]) -> None:
        """Take a regular file, whose bytes are read as far as the checks need them."""
        keep = self._keep(file.path)
        head = stream.read(MAX_HEAD_BYTES)
        is_text = b"\0" not in head
        short = file.size <= (MAX_PAPER_BYTES if keep else MAX_TEXT_BYTES) and (keep or is_text)
        whole = head + stream.read() if short else b""
        file = replace(file, machine=elf.machine(head), content=whole if keep else None)
        self.changes.files[file.path] = file
        if kind := secret_in(file.path, whole if is_text else b""):
            self.secrets.append((file, kind))

    def _look(self, path: str) -> File | None:
        return self.changes.files.get(path) or self._lower.get(path)

    def _path(self, name: str) -> str:
        """Where a member lies: a link in the place of a directory above it is followed, as unpacking does."""
        directory, last = posixpath.split(normal(name))
        if directory not in self._directories:
            self._directories[directory] = real_path(directory, self._look) or directory
        return posixpath.join(self._directories[directory], last)


def _apply(files: dict[str, File], changes: _Changes) -> None:
    """Lay a layer over those below. What replaces a directory by something else empties it too."""
    replaced = {path for path, file in changes.files.items() if file.kind != "directory"}
    gone = changes.removed | replaced
    if gone or changes.emptied:
        for path in [path for path in files if _is_gone(path, gone, changes.emptied)]:
            del files[path]
    files.update(changes.files)


def _is_gone(path: str, gone: set[str], emptied: set[str]) -> bool:
    if path in gone:
        return True
    above = path
    while above:
        above = posixpath.dirname(above)
        if above in gone or above in emptied:
            return True
    return False
