"""Ed25519 signatures of archives, `marsmith keygen` and `marsmith sign`: offline, with a key that only you can read.

MAR-INF/signature.json is a DSSE envelope (https://github.com/secure-systems-lab/dsse, version 1) whose payload is the
sha256 of MAR-INF/digests.json, and so covers every other member's name and bytes.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from marsmith import mar
from marsmith.atomic import atomic
from marsmith.errors import ArchiveError, SigningError, VerifyError
from marsmith.scan import CHUNK_BYTES, Member, Unreadable, read_directory
from marsmith.serving import dump_json

PAYLOAD_TYPE = "application/vnd.marsmith.digests+json"
PRIVATE_MODE, OTHERS = 0o600, 0o077

PublicKey = Ed25519PublicKey


def keygen(path: Path) -> Path:
    """Make a key pair: the private key at `path`, mode 0600, the public key beside it. Returns the public key's path.

    Raises SigningError when either is there already or cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    public_path = path.with_suffix(".pub")
    if public_path == path:
        raise SigningError(f"{path} is the name of the public key: give the private key another, such as ed25519.pem.")
    if public_path.exists():
        raise SigningError(f"{public_path} is there already: a key is never overwritten. Choose another name.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _create(path, private, PRIVATE_MODE)
        _create(public_path, public, 0o644)
    except FileExistsError as error:
        raise SigningError(
            f"{error.filename} is there already: a key is never overwritten. Choose another name."
        ) from None
    except OSError as error:
        raise SigningError(f"The key {path} cannot be written: {error.strerror}.") from None
    return public_path


def _create(path: Path, content: bytes, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """A private key file that nobody else can read. Raises SigningError."""
    content = _read(path)
    if path.stat().st_mode & OTHERS:
        raise SigningError(f"The private key {path} is open to other users: chmod 600 {path}, or make a new one.")
    try:
        key = load_pem_private_key(content, password=None)
    except TypeError:
        raise SigningError(f"The private key {path} is encrypted: decrypt it into a file of mode 0600 first.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise SigningError(f"{path} is no private key in PEM form: make one with marsmith keygen.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningError(f"{path} is no Ed25519 key: make one with marsmith keygen.")
    return key


def read_public_key(path: Path) -> PublicKey:
    """A public key file. Raises SigningError."""
    try:
        key = load_pem_public_key(_read(path))
    except (ValueError, UnsupportedAlgorithm):
        raise SigningError(
            f"{path} is no public key in PEM form: give the .pub file that marsmith keygen made."
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise SigningError(f"{path} is no Ed25519 key: make one with marsmith keygen.")
    return key


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SigningError(f"The key {path} cannot be read: {error.strerror}.") from None


def key_id(key: PublicKey) -> str:
    """The sha256 of a public key's 32 bytes in hexadecimal."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


def sign(path: Path, key_path: Path, progress: Callable[[int], None] | None = None) -> str:
    """Sign an archive in place; an older signature is replaced. Returns the key's id.

    The copy that gets the signature is verified before it takes the archive's name. Raises SigningError, ArchiveError,
    and VerifyError for an archive that is not sound: that is never signed.
    """
    from marsmith.verify import verify  # which reads signatures

    key = read_private_key(key_path)
    try:
        with path.open("rb") as source, atomic(path) as target:
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
    if mar.DIGESTS not in listed:
        raise SigningError(f"{path} has no {mar.DIGESTS} to sign: build it with marsmith build or marsmith archive.")
    old = listed.get(mar.SIGNATURE)
    end = old.entry.offset if old else directory.offset
    source.seek(0)
    while chunk := source.read(min(CHUNK_BYTES, end - source.tell())):
        target.write(chunk)
    sealed = Member(source, listed[mar.DIGESTS])
    digests = b"".join(sealed.inflated(sealed.lying()))
    with mar.Writer(target, [one.entry for one in directory.members if one is not old]) as writer:
        writer.add(PurePosixPath(mar.SIGNATURE), envelope(key, digests))
        writer.close()


def envelope(key: Ed25519PrivateKey, digests: bytes) -> bytes:
    """MAR-INF/signature.json for the content of MAR-INF/digests.json."""
    payload = _payload(digests)
    signature = {"keyid": key_id(key.public_key()), "sig": _encode(key.sign(_pre_authentication(payload)))}
    return dump_json({"payloadType": PAYLOAD_TYPE, "payload": _encode(payload), "signatures": [signature]})


def check(signature: bytes, digests: bytes, public: PublicKey | None) -> None:
    """Check a signature against the digests; without a key, only that it is one and speaks of these digests.

    Raises SigningError with the reason.
    """
    try:
        content = json.loads(signature)
        payload = base64.b64decode(content["payload"], validate=True)
        signatures = [base64.b64decode(one["sig"], validate=True) for one in content["signatures"]]
        kind = content["payloadType"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SigningError(f"{mar.SIGNATURE} is no signature") from None
    if kind != PAYLOAD_TYPE or payload != _payload(digests) or not signatures:
        raise SigningError(f"{mar.SIGNATURE} signs something else than {mar.DIGESTS}")
    if public is None:
        return
    for one in signatures:
        with contextlib.suppress(InvalidSignature):
            public.verify(one, _pre_authentication(payload))
            return
    raise SigningError(f"{mar.SIGNATURE} was not made with the key that you trust")


def _payload(digests: bytes) -> bytes:
    return dump_json({"member": mar.DIGESTS, "sha256": hashlib.sha256(digests).hexdigest()})


def _pre_authentication(payload: bytes) -> bytes:
    """What is signed: DSSE's PAE, which binds the payload to its type."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
