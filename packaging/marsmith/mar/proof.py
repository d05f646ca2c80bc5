"""What digests, signature and pins prove of an archive, whether it is a file or was unpacked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from packaging.version import InvalidVersion, Version

from marsmith.errors import SigningError, VerifyError
from marsmith.ground.limits import MAX_DIRECTORY_BYTES, MAX_PAPER_BYTES
from marsmith.ground.untrusted import json_value, mapping, printable
from marsmith.mar import envelope
from marsmith.mar.members import DIGESTS, MANIFEST, SEALS, SIGNATURE, Digest, digests_json
from marsmith.mar.problems import Problem

# Two digests, a size and a name for each member.
MAX_DIGESTS_BYTES = MAX_DIRECTORY_BYTES // 2
# What verification itself reads, and how much of it.
KEPT = {MANIFEST: MAX_PAPER_BYTES, DIGESTS: MAX_DIGESTS_BYTES, SIGNATURE: MAX_PAPER_BYTES}
SHOWN_PROBLEMS = 5
SHA256 = re.compile(r"[0-9a-f]{64}")

SignatureState = Literal["none", "unchecked", "valid", "bad"]


@dataclass(slots=True)
class Seen:
    """What was read of an archive: each member by name, and the content of those in KEPT."""

    members: dict[str, Digest] = field(default_factory=dict)
    kept: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pins:
    """What an archive must be besides sound: not older than a version, and the file with this sha256.

    Raises VerifyError for a pin that cannot be compared with anything.
    """

    minimum_version: str | None = None
    sha256: str | None = None

    def __post_init__(self) -> None:
        if self.minimum_version is not None:
            try:
                Version(self.minimum_version)
            except InvalidVersion:
                raise VerifyError(
                    f"The minimum version {printable(self.minimum_version)!r} cannot be compared: "
                    "give one like 1.2 or 2.0.1."
                ) from None
        if self.sha256 is not None:
            object.__setattr__(self, "sha256", self.sha256.strip().lower())
            if not SHA256.fullmatch(self.sha256 or ""):
                raise VerifyError("The sha256 to compare with is not 64 hexadecimal digits: copy it whole.")


def too_large(name: str, size: int) -> Problem | None:
    """The problem of a file that verification reads and that is larger than any that Marsmith writes."""
    limit = KEPT.get(name)
    if limit is None or size <= limit:
        return None
    return Problem("limit", name, f"{name} has {size:,} bytes, more than the {limit:,} allowed")


def check_digests(seen: Seen) -> Iterator[Problem]:
    """The digests against the members: all of them and no others, and the digests' own file as Marsmith writes it."""
    sealed = {name: one for name, one in seen.members.items() if name not in SEALS}
    digests = seen.kept.get(DIGESTS, b"")
    promised = promises(digests)
    own = seen.members.get(DIGESTS)
    if not promised or own is None or own.deflated:
        yield Problem("changed", DIGESTS, f"{DIGESTS} is not as Marsmith writes it")
        return
    unlike = list(_compare(promised, sealed))
    yield from unlike
    if not unlike and digests != digests_json(sealed):
        yield Problem("changed", DIGESTS, f"{DIGESTS} is not as Marsmith writes it")


def promises(digests: bytes) -> dict[str, Any]:
    """What the content of digests.json says of each member; empty for what is no such file."""
    return mapping(mapping(json_value(digests)).get("members"))


def _compare(promised: Mapping[str, Any], found: Mapping[str, Digest]) -> Iterator[Problem]:
    for name in sorted(promised.keys() - found.keys()):
        yield Problem("missing", name, f"{name} is missing")
    for name in sorted(found.keys() - promised.keys()):
        yield Problem("added", name, f"{name} was added")
    for name in sorted(found.keys() & promised.keys()):
        if promised[name] != found[name].entry():
            yield Problem("changed", name, f"the content of {name} was changed")


def check_signature(seen: Seen, public: Ed25519PublicKey | None) -> tuple[SignatureState, list[Problem]]:
    """A key that is given is one that must have signed: whoever strips a signature must not pass for unsigned."""
    if SIGNATURE not in seen.members:
        return "none", [Problem("signature", SIGNATURE, "it is not signed")] if public else []
    try:
        # One that is too large to be read is no signature of Marsmith's.
        envelope.check(seen.kept.get(SIGNATURE, b""), seen.kept.get(DIGESTS, b""), public)
    except SigningError as error:
        return "bad", [Problem("signature", SIGNATURE, str(error))]
    return "valid" if public else "unchecked", []


def check_version(seen: Seen, minimum: str) -> Iterator[Problem]:
    """Whether the version in the manifest is not older than `minimum`."""
    model = mapping(mapping(json_value(seen.kept.get(MANIFEST, b""))).get("model"))
    version = model.get("modelVersion")
    try:
        older = Version(str(version)) < Version(minimum)
    except InvalidVersion:
        yield Problem("pin", MANIFEST, f"its version {str(version)!r} cannot be compared with {minimum}")
        return
    if older:
        yield Problem("pin", MANIFEST, f"its version is {version}, older than {minimum}")


def refuse(path: Path, problems: list[Problem], remedy: str) -> None:
    """Raise VerifyError that names the first problems, unless there is none."""
    if problems:
        listed = "; ".join(problem.message for problem in problems[:SHOWN_PROBLEMS])
        more = len(problems) - SHOWN_PROBLEMS
        listed += f"; and {more} more" if more > 0 else ""
        raise VerifyError(f"{path} is not to be trusted: {listed}. {remedy}")
