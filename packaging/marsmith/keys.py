"""Ed25519 keys in PEM files: a private key that only its owner can read, and a public key to give away."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from marsmith.errors import SigningError

PRIVATE_MODE, OTHERS = 0o600, 0o077


def keygen(path: Path) -> Path:
    """Make a key pair: the private key at `path`, mode 0600, the public key beside it. Returns the public key's path.

    Raises SigningError when either is there already or cannot be written.
    """
    if not path.name:
        raise SigningError(f"{path} is a directory: name the key's file, such as ed25519.pem.")
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


def read_public_key(path: Path) -> Ed25519PublicKey:
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
