"""`marsmith verify`: whether an archive is, byte for byte, what was built and signed.

One pass over the file. An archive with MAR-INF/digests.json must be exactly as Marsmith writes it, down to the zip
records; of any other archive only structure and safety are judged.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from marsmith import envelope, layout, mar
from marsmith.bombs import check_limits
from marsmith.errors import ArchiveError, SigningError, VerifyError
from marsmith.keys import read_public_key
from marsmith.limits import MAX_DIRECTORY_BYTES, MAX_PAPER_BYTES
from marsmith.names import unsafe
from marsmith.scan import Directory, Listed, Member, Problem, Unreadable, read_directory
from marsmith.untrusted import json_value, mapping

# Two digests, a size and a name for each member.
MAX_DIGESTS_BYTES = MAX_DIRECTORY_BYTES // 2
# What verification itself reads, and how much of it.
KEPT = {mar.MANIFEST: MAX_PAPER_BYTES, mar.DIGESTS: MAX_DIGESTS_BYTES, mar.SIGNATURE: MAX_PAPER_BYTES}
SHOWN_PROBLEMS = 5

SignatureState = Literal["none", "unchecked", "valid", "bad"]


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
        if self.problems:
            listed = "; ".join(problem.message for problem in self.problems[:SHOWN_PROBLEMS])
            more = len(self.problems) - SHOWN_PROBLEMS
            listed += f"; and {more} more" if more > 0 else ""
            raise VerifyError(f"{self.path} is not to be trusted: {listed}. Get it again from where it was built.")


@dataclass(slots=True)
class _Seen:
    """What one pass over the members has seen: digests by name, and the content of KEPT."""

    members: dict[str, mar.Member] = field(default_factory=dict)
    kept: dict[str, bytes] = field(default_factory=dict)


def verify(
    path: Path,
    key: Path | None = None,
    *,
    require_signature: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Verify an archive; with `key`, a public key file, it must be signed. `progress` hears the bytes of each step.

    What is wrong with the archive is in the report. Raises ArchiveError when the file cannot be read at all, and
    SigningError when the key cannot, or when a signature is required without a key.
    """
    public = read_public_key(key) if key else None
    if require_signature and public is None:
        raise SigningError("A signature proves nothing without the key that you trust: name it with --key.")
    try:
        with path.open("rb") as stream:
            report, seen = Report(path, path.stat().st_size), _Seen()
            try:
                directory = read_directory(stream)
                report.members = len(directory.members)
                report.sealed = any(one.entry.name == mar.DIGESTS for one in directory.members)
                report.problems += check_limits(directory)
                # What would explode is not unpacked to see what else is wrong.
                if report.ok:
                    report.problems += _check_names(directory)
                    report.problems += _read_members(stream, directory, seen, progress or (lambda _: None))
                    report.problems += _check_seal(directory, seen) if report.sealed else _check_unsealed(seen)
            except Unreadable as stop:
                report.problems.append(stop.problem)
                return report
    except FileNotFoundError:
        raise ArchiveError(f"There is no archive {path}. Build it with marsmith build.") from None
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read: {error.strerror or error}.") from None
    report.signature, problems = _check_signature(seen, public)
    report.problems += problems
    return report


def _check_names(directory: Directory) -> Iterator[Problem]:
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


def _read_members(
    stream: IO[bytes], directory: Directory, seen: _Seen, progress: Callable[[int], None]
) -> Iterator[Problem]:
    """Read every member once, from the first byte of the file to the directory."""
    position, before = 0, "the beginning"
    sealed = any(one.entry.name == mar.DIGESTS for one in directory.members)
    in_file = sorted(directory.members, key=lambda one: one.entry.offset)
    if in_file != directory.members:
        moved = next(a for a, b in zip(directory.members, in_file, strict=True) if a != b)
        yield Problem(
            "order", moved.entry.name, f"the directory lists {moved.entry.name} in another order than the file"
        )
    for listed in in_file:
        name = listed.entry.name
        if listed.entry.offset != position:
            yield _gap(stream, position, listed.entry.offset, before, name)
        member = Member(stream, listed)
        yield from _read_member(member, seen, progress)
        if sealed and not member.problems and member.raw_header != layout.local_header(listed.entry):
            yield Problem("changed", name, f"the header of {name} is not as Marsmith writes it")
        position, before = member.end, name
    if position != directory.offset:
        yield _gap(stream, position, directory.offset, before, "the directory")
    if directory.trailing:
        yield Problem("trailing", None, f"{directory.trailing:,} bytes follow the end of the archive")


def _gap(stream: IO[bytes], begin: int, end: int, before: str, after: str) -> Problem:
    if end < begin:
        return Problem("changed", after, f"{after} overlaps {before}")
    stream.seek(begin)
    raw = stream.read(layout.LOCAL.size)
    if raw.startswith(layout.LOCAL_SIGNATURE) and len(raw) == layout.LOCAL.size:
        hidden = stream.read(int.from_bytes(raw[26:28], "little")).decode("utf-8", "backslashreplace")
        return Problem("added", hidden, f"{hidden} is in the file but not in its directory: TorchServe would unpack it")
    return Problem("added", None, f"{end - begin:,} bytes between {before} and {after} belong to no member")


def _read_member(member: Member, seen: _Seen, progress: Callable[[int], None]) -> Iterator[Problem]:
    entry = member.listed.entry
    content, lying = hashlib.sha256(), hashlib.sha256()
    deflated = entry.method == layout.DEFLATED
    crc = size = 0
    kept = bytearray() if entry.size <= KEPT.get(entry.name, -1) else None

    def read() -> Iterator[bytes]:
        for chunk in member.lying():
            if deflated:
                lying.update(chunk)
            progress(len(chunk))
            yield chunk

    for chunk in member.inflated(read()):
        content.update(chunk)
        crc = zlib.crc32(chunk, crc)
        size += len(chunk)
        if kept is not None:
            kept += chunk
    member.finish()
    yield from member.problems
    if not member.problems and (crc, size) != (entry.crc, entry.size):
        yield Problem("changed", entry.name, f"the content of {entry.name} was changed")
    seen.members[entry.name] = mar.Member(size, content.hexdigest(), lying.hexdigest() if deflated else None)
    if kept is not None:
        seen.kept[entry.name] = bytes(kept)


def _check_unsealed(seen: _Seen) -> Iterator[Problem]:
    """Marsmith's archives never lack their digests."""
    if "marsmith" in mapping(json_value(seen.kept.get(mar.MANIFEST, b""))):
        yield Problem("missing", mar.DIGESTS, f"{mar.DIGESTS} is missing")


def _check_seal(directory: Directory, seen: _Seen) -> Iterator[Problem]:
    """The digests against the members, and the directory against the one that Marsmith writes."""
    sealed = {name: one for name, one in seen.members.items() if name not in mar.SEALS}
    digests = seen.kept.get(mar.DIGESTS, b"")
    promised = mapping(mapping(json_value(digests)).get("members"))
    if not promised or seen.members[mar.DIGESTS].deflated:
        yield Problem("changed", mar.DIGESTS, f"{mar.DIGESTS} is not as Marsmith writes it")
        return
    unlike = list(_compare(promised, sealed))
    yield from unlike
    if not unlike and digests != mar.digests(sealed):
        yield Problem("changed", mar.DIGESTS, f"{mar.DIGESTS} is not as Marsmith writes it")
    names = [one.entry.name for one in directory.members]
    expected = [*sorted(set(names) - set(mar.SEALS)), *(name for name in mar.SEALS if name in names)]
    for name, right in zip(names, expected, strict=False):
        if name != right:
            yield Problem("order", name, f"{name} stands where {right} belongs")
            break
    yield from _check_directory(directory.members)
    length = sum(len(one.raw) for one in directory.members)
    if directory.end != layout.end_of_directory(len(names), directory.offset, length):
        yield Problem("directory", None, "the end record is not as Marsmith writes it")


def _compare(promised: Mapping[str, Any], found: Mapping[str, mar.Member]) -> Iterator[Problem]:
    for name in sorted(promised.keys() - found.keys()):
        yield Problem("missing", name, f"{name} is missing")
    for name in sorted(found.keys() - promised.keys()):
        yield Problem("added", name, f"{name} was added")
    for name in sorted(found.keys() & promised.keys()):
        if promised[name] != mar.digest(found[name]):
            yield Problem("changed", name, f"the content of {name} was changed")


def _check_directory(members: list[Listed]) -> Iterator[Problem]:
    for one in members:
        if one.raw != layout.central_header(one.entry):
            yield Problem(
                "changed", one.entry.name, f"the directory's record of {one.entry.name} is not as Marsmith writes it"
            )


def _check_signature(seen: _Seen, public: Ed25519PublicKey | None) -> tuple[SignatureState, list[Problem]]:
    """A key that is given is one that must have signed: whoever strips a signature must not pass for unsigned."""
    signature = seen.kept.get(mar.SIGNATURE)
    if signature is None:
        return "none", [Problem("signature", mar.SIGNATURE, "it is not signed")] if public else []
    try:
        envelope.check(signature, seen.kept.get(mar.DIGESTS, b""), public)
    except SigningError as error:
        return "bad", [Problem("signature", mar.SIGNATURE, str(error))]
    return "valid" if public else "unchecked", []
