"""`marsmith verify`: whether an archive is, byte for byte, what was built and signed.

One pass over the file. An archive with MAR-INF/digests.json must be exactly as Marsmith writes it, down to the zip
records; of any other archive only structure and safety are judged.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from marsmith.errors import ArchiveError, SigningError
from marsmith.ground.files import open_regular
from marsmith.ground.names import folded, unsafe
from marsmith.ground.untrusted import json_value, mapping
from marsmith.mar import records
from marsmith.mar.bombs import check_limits
from marsmith.mar.directory import Directory, Listed, read_directory
from marsmith.mar.keys import read_public_key
from marsmith.mar.members import DIGESTS, MANIFEST, SEALS
from marsmith.mar.problems import Problem, Unreadable
from marsmith.mar.proof import Pins, Seen, SignatureState, check_digests, check_signature, check_version, refuse
from marsmith.mar.structure import read_members


@dataclass(slots=True)
class Report:
    """What verification found. `size` is in bytes; `sealed` is whether digests bind every member."""

    path: Path
    size: int
    members: int = 0
    sealed: bool = False
    signature: SignatureState = "none"
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def require_ok(self) -> None:
        """Raise VerifyError that names the first problems, unless there is none."""
        refuse(self.path, self.problems, "Get it again from where it was built.")


def verify(
    path: Path,
    key: Path | None = None,
    *,
    require_signature: bool = False,
    pins: Pins | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Verify an archive; with `key`, a public key file, it must be signed. `progress` is given the bytes of each step.

    What is wrong with the archive is in the report. Raises ArchiveError when the file cannot be read at all, and
    SigningError when the key cannot, or when a signature is required without a key.
    """
    public = read_public_key(key) if key else None
    if require_signature and public is None:
        raise SigningError("A signature proves nothing without the key that you trust: name it with --key.")
    try:
        with open_regular(path) as stream:
            return _verify(
                stream,
                Report(path, os.fstat(stream.fileno()).st_size),
                public,
                pins or Pins(),
                progress or (lambda _: None),
            )
    except FileNotFoundError:
        raise ArchiveError(f"There is no archive {path}. Build it with marsmith build.") from None
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read: {error.strerror or error}.") from None


def _verify(
    stream: io.BufferedReader,
    report: Report,
    public: Ed25519PublicKey | None,
    pins: Pins,
    progress: Callable[[int], None],
) -> Report:
    if pins.sha256 is not None and (found := hashlib.file_digest(stream, "sha256").hexdigest()) != pins.sha256:
        report.problems.append(Problem("pin", None, f"its sha256 is {found}, not the one that is asked for"))
    seen = Seen()
    try:
        directory = read_directory(stream)
        names = [one.entry.name for one in directory.members]
        report.members = len(names)
        report.sealed = DIGESTS in names
        if bombs := list(check_limits(directory)):  # what would explode is not unpacked to see what else is wrong
            report.problems += bombs
            return report
        report.problems += _check_names(directory, sealed=report.sealed)
        report.problems += read_members(stream, directory, seen, progress)
        report.problems += _check_seal(directory, seen) if report.sealed else _check_unsealed(seen)
    except Unreadable as stop:
        report.problems.append(stop.problem)
        return report
    report.signature, problems = check_signature(seen, public)
    report.problems += problems
    if pins.minimum_version is not None:
        report.problems += check_version(seen, pins.minimum_version)
    return report


def _check_names(directory: Directory, *, sealed: bool) -> Iterator[Problem]:
    names = [one.entry.name for one in directory.members]
    for name, count in Counter(names).items():
        if count > 1:
            yield Problem("duplicate", name, f"{name} is in the archive {count} times")
        if reason := unsafe(name):
            yield Problem("unsafe", name, f"the member name {name!r} {reason}")
    safe = {name for name in names if not unsafe(name)}
    files = {name for name in safe if not name.endswith("/")}
    for name in sorted(safe):
        path = PurePosixPath(name)
        for folder in (*path.parents, *([path] if name.endswith("/") else [])):
            if str(folder) in files:
                yield Problem("unsafe", name, f"{name} needs a directory where {folder} is a file")
    if not sealed:  # digests bind each of them, wherever it is unpacked
        first: dict[str, str] = {}
        for name in sorted(files):
            if (earlier := first.setdefault(folded(name), name)) != name:
                yield Problem("ambiguous", name, f"{name} overwrites {earlier} where case or Unicode form is no matter")


def _check_unsealed(seen: Seen) -> Iterator[Problem]:
    """Marsmith's archives never lack their digests."""
    if "marsmith" in mapping(json_value(seen.kept.get(MANIFEST, b""))):
        yield Problem("missing", DIGESTS, f"{DIGESTS} is missing")


def _check_seal(directory: Directory, seen: Seen) -> Iterator[Problem]:
    """The digests against the members, and the directory against the one that Marsmith writes."""
    yield from check_digests(seen)
    names = [one.entry.name for one in directory.members]
    expected = [*sorted(set(names) - set(SEALS)), *(name for name in SEALS if name in names)]
    for name, right in zip(names, expected, strict=False):
        if name != right:
            yield Problem("order", name, f"{name} stands where {right} belongs")
            break
    yield from _check_directory(directory.members)
    length = sum(len(one.raw) for one in directory.members)
    if directory.end != records.end_of_directory(len(names), directory.offset, length):
        yield Problem("directory", None, "the end record is not as Marsmith writes it")


def _check_directory(members: list[Listed]) -> Iterator[Problem]:
    for one in members:
        if one.raw != records.central_header(one.entry):
            yield Problem(
                "changed", one.entry.name, f"the directory's record of {one.entry.name} is not as Marsmith writes it"
            )
