"""Ed25519 keys in PEM files: a private key that only its owner can read, and a public key to give away."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Mapping
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

PRIVATE_MODE, PUBLIC_MODE, OTHERS = 0o600, 0o644, 0o077


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
        _create({path: (private, PRIVATE_MODE), public_path: (public, PUBLIC_MODE)})
    except FileExistsError as error:
        raise SigningError(
            f"{error.filename2 or error.filename} is there already: a key is never overwritten. Choose another name."
        ) from None
    except OSError as error:
        raise SigningError(f"The key {path} cannot be written: {error.strerror}.") from None
    return public_path


def _create(files: Mapping[Path, tuple[bytes, int]]) -> None:
    """Make files with their content and mode, all of them whole, or none. Raises OSError, also for one that exists."""
    made: list[Path] = []
    with contextlib.ExitStack() as stack:
        for path, (content, mode) in files.items():
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            stack.callback(Path(name).unlink, missing_ok=True)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fchmod(handle, mode)
                os.fsync(handle)
            made.append(Path(name))
        named: list[Path] = []
        try:
            for temporary, path in zip(made, files, strict=True):
                _take_name(temporary, path)
                named.append(path)
            _sync_directory(path.parent)
        except BaseException:
            for path in named:
                path.unlink(missing_ok=True)
            raise


def _take_name(temporary: Path, path: Path) -> None:
    """Give a file its name, unless there is one of that name. Raises OSError."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links, such as FAT
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        temporary.rename(path)


def _sync_directory(directory: Path) -> None:
    """Make the names in a directory last. Raises OSError."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
