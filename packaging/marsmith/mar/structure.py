"""Read every member of an archive once, from the first byte of the file to the directory."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from typing import IO

from marsmith.mar import records
from marsmith.mar.directory import Directory
from marsmith.mar.members import DIGESTS, Digest
from marsmith.mar.problems import Problem
from marsmith.mar.proof import KEPT, Seen, too_large
from marsmith.mar.scan import Member


def read_members(
    stream: IO[bytes], directory: Directory, seen: Seen, progress: Callable[[int], None]
) -> Iterator[Problem]:
    """What is wrong with the members and with what lies between them; what they hold is put into `seen`.

    Limits must have been checked before. Raises Unreadable.
    """
    position, before = 0, "the beginning"
    sealed = any(one.entry.name == DIGESTS for one in directory.members)
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
        if sealed and not member.problems and member.raw_header != records.local_header(listed.entry):
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
    raw = stream.read(records.LOCAL.size)
    if raw.startswith(records.LOCAL_SIGNATURE) and len(raw) == records.LOCAL.size:
        hidden = stream.read(int.from_bytes(raw[26:28], "little")).decode("utf-8", "backslashreplace")
        return Problem("added", hidden, f"{hidden} is in the file but not in its directory: TorchServe would unpack it")
    return Problem("added", None, f"{end - begin:,} bytes between {before} and {after} belong to no member")


def _read_member(member: Member, seen: Seen, progress: Callable[[int], None]) -> Iterator[Problem]:
    entry = member.listed.entry
    content, lying = hashlib.sha256(), hashlib.sha256()
    deflated = entry.method == records.DEFLATED
    crc = size = 0
    kept = bytearray() if entry.size <= KEPT.get(entry.name, -1) else None

    def read() -> Iterator[bytes]:
        for chunk in member.lying():
            if deflated:
                lying.update(chunk)
            progress(len(chunk))
            yield chunk

    for chunk in member.inflated(read()) if member.readable else ():
        content.update(chunk)
        crc = zlib.crc32(chunk, crc)
        size += len(chunk)
        if kept is not None:
            kept += chunk
    member.finish()
    yield from member.problems
    if problem := too_large(entry.name, entry.size):
        yield problem
    if not member.problems and (crc, size) != (entry.crc, entry.size):
        yield Problem("changed", entry.name, f"the content of {entry.name} was changed")
    if not member.readable:
        return
    seen.members[entry.name] = Digest(size, content.hexdigest(), lying.hexdigest() if deflated else None)
    if kept is not None:
        seen.kept[entry.name] = bytes(kept)
