"""The files of an image: its layers laid over one another, with what they delete taken away.

https://github.com/opencontainers/image-spec/blob/main/layer.md. Of a file only what the checks ask about is kept.
"""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import IO, Literal

from marsmith.image import elf
from marsmith.image.archive import Image, layer_members
from marsmith.image.secrets import secret_in
from marsmith.limits import MAX_HEAD_BYTES, MAX_PAPER_BYTES, MAX_TEXT_BYTES
from marsmith.progress import Progress, silent

WHITEOUT, OPAQUE, RESERVED = ".wh.", ".wh..wh..opq", ".wh..wh."
# Links that are followed for one name, as Linux has it.
MAX_LINKS = 40

Kind = Literal["file", "directory", "link", "other"]


@dataclass(frozen=True, slots=True)
class File:
    """One entry of the file system: `path` has no leading slash, `size` is in bytes, `layer` counts from the lowest.

    `machine` is an ELF file's e_machine, `target` where a link leads, `content` what was asked to be kept.
    """

    path: str
    kind: Kind
    mode: int
    size: int
    layer: int
    target: str = ""
    machine: int | None = None
    content: bytes | None = None

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
        """What a path leads to, links followed; None where that is nothing."""
        pending, done = [part for part in path.split("/") if part], ""
        for _ in range(MAX_LINKS):
            while pending:
                part = pending.pop(0)
                here = posixpath.normpath(posixpath.join("/", done, part))[1:]
                found = self.files.get(here)
                if found is not None and found.kind == "link":
                    base = "/" if found.target.startswith("/") else posixpath.join("/", done)
                    target = posixpath.normpath(posixpath.join(base, found.target))
                    pending, done = [one for one in target.split("/") if one] + pending, ""
                    break
                done = here
            else:
                return self.files.get(done)
        return None


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
        changes = _Changes()
        with layer_members(image, layer) as members:
            for member in members:
                _add(changes, tree, members, member, number, keep, found)
        tree.unpacked.append(sum(file.size for file in changes.files.values()))
        _apply(tree.files, changes)
    tree.secrets = [Secret(file.path, file.layer, kind, tree.files.get(file.path) != file) for file, kind in found]
    return tree


def normal(name: str) -> str:
    """A member's name as a path from the root, without a leading slash."""
    return posixpath.normpath(posixpath.join("/", name)).lstrip("/")


def _add(
    changes: _Changes,
    tree: Tree,
    members: tarfile.TarFile,
    member: tarfile.TarInfo,
    layer: int,
    keep: Callable[[str], bool],
    found: list[tuple[File, str]],
) -> None:
    path = normal(member.name)
    directory, name = posixpath.split(path)
    if name == OPAQUE:
        changes.emptied.add(directory)
    elif name.startswith(RESERVED):
        return
    elif name.startswith(WHITEOUT):
        changes.removed.add(posixpath.join(directory, name.removeprefix(WHITEOUT)))
    elif member.islnk():
        target = normal(member.linkname)
        original = changes.files.get(target) or tree.files.get(target)
        if original is not None:
            # One file with two names takes its room once.
            changes.files[path] = replace(original, path=path, layer=layer, size=0)
    elif member.isfile():
        stream = members.extractfile(member)
        assert stream is not None  # noqa: S101 - tarfile has one for every regular file
        file, text = _read(path, member, layer, stream, keep(path))
        changes.files[path] = file
        if kind := secret_in(path, text):
            found.append((file, kind))
    else:
        kind_of: Kind = "directory" if member.isdir() else "link" if member.issym() else "other"
        changes.files[path] = File(path, kind_of, member.mode, 0, layer, member.linkname)


def _read(path: str, member: tarfile.TarInfo, layer: int, stream: IO[bytes], keep: bool) -> tuple[File, bytes]:
    """A regular file, and its text, which is empty for what is no text or too long to be one that matters."""
    head = stream.read(MAX_HEAD_BYTES)
    short = member.size <= (MAX_PAPER_BYTES if keep else MAX_TEXT_BYTES) and (keep or b"\0" not in head)
    whole = head + stream.read() if short else b""
    content = whole if keep else None
    file = File(path, "file", member.mode, member.size, layer, "", elf.machine(head), content)
    return file, whole if b"\0" not in head else b""


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
