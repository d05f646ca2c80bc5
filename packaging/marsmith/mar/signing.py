"""`marsmith sign`: put a signature into an archive, offline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from marsmith.errors import ArchiveError, SigningError, VerifyError
from marsmith.ground.files import atomic, open_regular
from marsmith.mar import records
from marsmith.mar.directory import read_directory
from marsmith.mar.envelope import key_id, seal
from marsmith.mar.keys import read_private_key
from marsmith.mar.members import DIGESTS, SIGNATURE
from marsmith.mar.problems import Unreadable
from marsmith.mar.proof import MAX_DIGESTS_BYTES
from marsmith.mar.scan import CHUNK_BYTES, Member
from marsmith.mar.verify import verify
from marsmith.mar.writer import Writer


def sign(path: Path, key_path: Path, progress: Callable[[int], None] | None = None) -> str:
    """Sign an archive in place; an older signature is replaced. Returns the key's id.

    The copy that gets the signature is verified before it takes the archive's name; a link stays a link. Raises
    SigningError, ArchiveError, and VerifyError for an archive that is not sound: that is never signed.
    """
    key = read_private_key(key_path)
    target_path = path.resolve()
    try:
        with open_regular(target_path) as source, atomic(target_path) as target:
            _add_signature(path, source, target, key)
            target.flush()
            report = verify(Path(target.name), progress=progress)
            report.path = path
            report.require_ok()
    except FileNotFoundError:
        raise ArchiveError(f"There is no archive {path}. Build it with marsmith build.") from None
    except Unreadable as stop:
        raise VerifyError(f"{path} is not to be trusted: {stop}. Get it again from where it was built.") from None
    except OSError as error:
        raise ArchiveError(f"The archive {path} cannot be signed: {error.strerror or error}.") from None
    return key_id(key.public_key())


def _add_signature(path: Path, source: IO[bytes], target: IO[bytes], key: Ed25519PrivateKey) -> None:
    """Copy the members from `source` and add the signature after them."""
    directory = read_directory(source)
    listed = {one.entry.name: one for one in directory.members}
    if DIGESTS not in listed:
        raise SigningError(f"{path} has no {DIGESTS} to sign: build it with marsmith build or marsmith archive.")
    seal_entry = listed[DIGESTS].entry
    if seal_entry.method != records.STORED or seal_entry.size > MAX_DIGESTS_BYTES:
        raise Unreadable("changed", DIGESTS, f"{DIGESTS} is not as Marsmith writes it")
    old = listed.get(SIGNATURE)
    end = old.entry.offset if old else directory.offset
    source.seek(0)
    while chunk := source.read(min(CHUNK_BYTES, end - source.tell())):
        target.write(chunk)
    digests = b"".join(Member(source, listed[DIGESTS]).lying())
    with Writer(target, [one.entry for one in directory.members if one is not old]) as writer:
        writer.add(PurePosixPath(SIGNATURE), seal(key, digests))
        writer.close()
