"""Whether an unpacked archive is, file for file, what was built and signed: for servers that unpack by themselves."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marsmith.errors import ArchiveError
from marsmith.ground.files import NOT_REGULAR
from marsmith.ground.limits import MAX_MEMBERS, MAX_TOTAL_BYTES
from marsmith.ground.names import unsafe
from marsmith.ground.untrusted import mapping, printable
from marsmith.mar.keys import read_public_key
from marsmith.mar.members import DIGESTS, SEALS, Digest
from marsmith.mar.problems import Problem, Unreadable
from marsmith.mar.proof import KEPT, Seen, check_digests, check_signature, promises, refuse, too_large
from marsmith.mar.writer import CHUNK_BYTES

REMEDY = "Unpack an archive of marsmith build there."
# Nothing below a directory is reached through a link, and a pipe that nobody writes to does not block.
DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def verify_unpacked(directory: Path, key: Path | None = None) -> None:
    """Verify every file below `directory`; with `key`, a public key file, the archive must have been signed.

    No link is followed below it, and nothing is read that the digests do not promise with its size. Raises VerifyError
    that names the first problems, ArchiveError where it cannot be read, and SigningError for a key that cannot be used.
    """
    public = read_public_key(key) if key else None
    walk = _Walk()
    try:
        handle = os.open(directory, DIRECTORY_FLAGS & ~os.O_NOFOLLOW)
        try:
            walk.problems += _read_kept(handle, walk.seen)
            walk.read(handle)
        finally:
            os.close(handle)
    except Unreadable as stop:
        walk.problems.append(stop.problem)
    except OSError as error:
        where = printable(str(error.filename or directory))
        raise ArchiveError(f"{where} cannot be read: {error.strerror or error}.") from None
    else:
        if DIGESTS in walk.seen.kept:
            walk.problems += check_digests(walk.seen)
        walk.problems += check_signature(walk.seen, public)[1]
    refuse(directory, walk.problems, REMEDY)


def _read_kept(root: int, seen: Seen) -> Iterator[Problem]:
    """Keep what verification itself reads, where it is a regular file that is not too large."""
    for name in SEALS:
        try:
            handle = _open(root, name)
        except FileNotFoundError:
            if name == DIGESTS:
                yield Problem("missing", name, f"{name} is missing")
            continue
        except (NotADirectoryError, _NotRegular):
            yield Problem("unsafe", name, f"{name} is not a regular file")
            continue
        with os.fdopen(handle, "rb") as stream:
            content = stream.read(KEPT[name] + 1)
        # Present, if not readable: what is too large must not pass for missing.
        seen.members[name] = Digest(len(content), hashlib.sha256(content).hexdigest())
        if problem := too_large(name, len(content)):
            yield problem
        else:
            seen.kept[name] = content


class _NotRegular(OSError):
    """A link, directory, device, pipe or socket where a regular file is expected."""


def _open(root: int, name: str) -> int:
    """A descriptor of the regular file `name` below the directory `root`, without a link on the way. Raises OSError."""
    *folders, last = name.split("/")
    opened: list[int] = []
    try:
        for folder in folders:
            opened.append(os.open(folder, DIRECTORY_FLAGS, dir_fd=opened[-1] if opened else root))
        here = opened[-1] if opened else root
        # Not opened to see what it is: a device may do something then.
        if not stat.S_ISREG(os.stat(last, dir_fd=here, follow_symlinks=False).st_mode):
            raise _NotRegular(errno.EINVAL, NOT_REGULAR, name)
        handle = os.open(last, FILE_FLAGS, dir_fd=here)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise _NotRegular(errno.EINVAL, NOT_REGULAR, name)
        return handle
    finally:
        for one in opened:
            os.close(one)


@dataclass(slots=True)
class _Walk:
    """The files below a directory, compared with what the digests promise, and read only where they may be that.

    `names` are the promised ones, sorted, without those that no archive should hold.
    """

    seen: Seen = field(default_factory=Seen)
    problems: list[Problem] = field(default_factory=list)
    promised: Mapping[str, Any] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    entries: int = 0
    read_bytes: int = 0

    def read(self, root: int) -> None:
        """Look at every name in the directories that a promised file lies in. Raises OSError and Unreadable."""
        self.promised = promises(self.seen.kept.get(DIGESTS, b""))
        self.names = sorted({name for name in self.promised if not unsafe(name)} | set(SEALS))
        self._read(root, "")

    def _read(self, here: int, above: str) -> None:
        for last in self._listed(here):
            name = f"{above}{last}"
            status = os.stat(last, dir_fd=here, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and self._leads_on(f"{name}/"):
                handle = os.open(last, DIRECTORY_FLAGS, dir_fd=here)
                try:
                    self._read(handle, f"{name}/")
                finally:
                    os.close(handle)
            elif name not in SEALS:
                self._compare(here, last, name, status)

    def _listed(self, here: int) -> list[str]:
        found = []
        with os.scandir(here) as entries:
            for entry in entries:
                self.entries += 1
                if self.entries > MAX_MEMBERS:
                    raise Unreadable("limit", None, f"it has more than {MAX_MEMBERS:,} files and directories")
                found.append(entry.name)
        return sorted(found)

    def _leads_on(self, folder: str) -> bool:
        """Whether a promised file lies below a directory, given with its slash."""
        place = bisect_left(self.names, folder)
        return place < len(self.names) and self.names[place].startswith(folder)

    def _compare(self, here: int, last: str, name: str, status: os.stat_result) -> None:
        if name not in self.promised:
            slash = "/" if stat.S_ISDIR(status.st_mode) else ""
            self.problems.append(Problem("added", name, f"{name}{slash} was added"))
            return
        promise = mapping(self.promised[name])
        # Of another size it cannot be what was promised, and is not read.
        self.seen.members[name] = Digest(status.st_size, "", promise.get("deflated"))
        if not stat.S_ISREG(status.st_mode):
            self.problems.append(Problem("unsafe", name, f"{name} is not a regular file"))
        elif status.st_size == promise.get("size"):
            self.seen.members[name] = self._digest(here, last, status.st_size, promise.get("deflated"))

    def _digest(self, here: int, last: str, size: int, deflated: Any) -> Digest:
        """The member that a file is, which was of `size` bytes: read no further, whatever has become of it."""
        self.read_bytes += size
        if self.read_bytes > MAX_TOTAL_BYTES:
            raise Unreadable("limit", None, f"it has more than {MAX_TOTAL_BYTES:,} bytes")
        digest, count = hashlib.sha256(), 0
        with os.fdopen(_open(here, last), "rb", buffering=0) as stream:
            while count <= size and (chunk := stream.read(min(CHUNK_BYTES, size + 1 - count))):
                digest.update(chunk)
                count += len(chunk)
        return Digest(count, digest.hexdigest(), deflated)
