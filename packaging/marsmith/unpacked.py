"""Whether an unpacked archive is, file for file, what was built and signed: for servers that unpack by themselves."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from marsmith import envelope, mar
from marsmith.errors import ArchiveError, SigningError, VerifyError
from marsmith.keys import read_public_key
from marsmith.untrusted import json_value, mapping
from marsmith.verify import MAX_DIGESTS_BYTES

SHOWN_PROBLEMS = 5


def verify_unpacked(directory: Path, key: Path | None = None) -> None:
    """Verify every file below `directory`; with `key`, a public key file, the archive must have been signed.

    Raises VerifyError that names the first problems, ArchiveError where it is no archive of Marsmith's or cannot be
    read, and SigningError for a key that cannot be used.
    """
    public = read_public_key(key) if key else None
    try:
        digests = _read(directory / mar.DIGESTS)
        problems = [] if digests else [f"{mar.DIGESTS} is missing"]
        promised = mapping(mapping(json_value(digests)).get("members"))
        problems += _compare(directory, promised)
        signature = _read(directory / mar.SIGNATURE)
        if signature or public:
            problems += _check_signature(signature, digests, public)
    except OSError as error:
        raise ArchiveError(f"{error.filename or directory} cannot be read: {error.strerror or error}.") from None
    if problems:
        listed, more = "; ".join(problems[:SHOWN_PROBLEMS]), len(problems) - SHOWN_PROBLEMS
        listed += f"; and {more} more" if more > 0 else ""
        raise VerifyError(f"{directory} is not to be trusted: {listed}. Unpack an archive of marsmith build there.")


def _read(path: Path) -> bytes:
    """The content of one of the small files, empty where there is none."""
    if not path.is_file() or path.is_symlink():
        return b""
    with path.open("rb") as stream:
        return stream.read(MAX_DIGESTS_BYTES)


def _compare(directory: Path, promised: dict[str, Any]) -> Iterator[str]:
    found = {str(path.relative_to(directory)): path for path in _files(directory)}
    for name in sorted(promised.keys() - found.keys()):
        yield f"{name} is missing"
    for name in sorted(found.keys() - promised.keys() - set(mar.SEALS)):
        yield f"{name} was added"
    for name in sorted(found.keys() & promised.keys()):
        if not _is(found[name], mapping(promised[name])):
            yield f"the content of {name} was changed"


def _files(directory: Path) -> Iterator[Path]:
    """Whatever is no directory: a link counts as itself, so that nothing outside is taken for what was built."""
    for folder, folders, names in os.walk(directory):
        for name in names + [one for one in folders if Path(folder, one).is_symlink()]:
            yield Path(folder, name)


def _is(path: Path, promised: dict[str, Any]) -> bool:
    if path.is_symlink() or not path.is_file() or path.stat().st_size != promised.get("size"):
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == promised.get("sha256")


def _check_signature(signature: bytes, digests: bytes, public: Any) -> Iterator[str]:
    if not signature:
        yield "it is not signed"
        return
    try:
        envelope.check(signature, digests, public)
    except SigningError as error:
        yield str(error)
