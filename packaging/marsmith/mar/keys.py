"""Ed25519 keys in PEM files: a private key that only its owner can read, and a public key to give away."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import re
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
from marsmith.ground.files import open_regular
from marsmith.mar.curve import is_weak

# An Ed25519 key in PEM form has some 120 bytes, the largest of other kinds some thousands.
MAX_KEY_BYTES = 64 << 10
# RFC 7468: one block of base64, whose labels agree.
PEM_BEGIN = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----")
PEM = re.compile(rb"\s*-----BEGIN ([A-Z0-9 ]+)-----[A-Za-z0-9+/=\s]*-----END \1-----\s*")
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
            sync_directory(path.parent)
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


def sync_directory(directory: Path) -> None:
    """Make the names in a directory last. Raises OSError."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """A private key file that nobody else can read. Raises SigningError."""
    content, mode = _read(path, "PRIVATE KEY")
    if mode & OTHERS:
        raise SigningError(f"The private key {path} is open to other users: chmod 600 {path}, or make a new one.")
    try:
        key = load_pem_private_key(content, password=None)
    except TypeError:
        raise SigningError(f"The private key {path} is encrypted: decrypt it into a file of mode 0600 first.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise SigningError(f"{path} is not a private key in PEM form: make one with marsmith keygen.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningError(f"{path} is not an Ed25519 key: make one with marsmith keygen.")
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """A public key file, with a key that only one private key signs for. Raises SigningError."""
    content, _ = _read(path, "PUBLIC KEY")
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise SigningError(
            f"{path} is not a public key in PEM form: give the .pub file that marsmith keygen made."
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise SigningError(f"{path} is not an Ed25519 key: make one with marsmith keygen.")
    if is_weak(key.public_bytes(Encoding.Raw, PublicFormat.Raw)):
        raise SigningError(f"{path} is a weak key, for which anybody can sign: make one with marsmith keygen.")
    return key


def _read(path: Path, kind: str) -> tuple[bytes, int]:
    """A key file with one PEM block of that kind and nothing beside it, and its mode. Raises SigningError."""
    try:
        with open_regular(path) as stream:
            content, mode = stream.read(MAX_KEY_BYTES + 1), os.fstat(stream.fileno()).st_mode
    except OSError as error:
        raise SigningError(f"The key {path} cannot be read: {error.strerror}.") from None
    content = content.removeprefix(codecs.BOM_UTF8)
    blocks = [label.decode("ascii") for label in PEM_BEGIN.findall(content)]
    if len(blocks) > 1:
        raise SigningError(f"{path} holds {len(blocks)} keys or certificates: keep one key in the file.")
    if kind == "PUBLIC KEY" and blocks and blocks[0].endswith("PRIVATE KEY"):
        raise SigningError(f"{path} is a private key: give the public one, the .pub file beside it, and keep this one.")
    if kind == "PRIVATE KEY" and blocks == ["PUBLIC KEY"]:
        raise SigningError(f"{path} is a public key: give the private one that it belongs to.")
    if len(content) > MAX_KEY_BYTES or (blocks and not PEM.fullmatch(content)):
        raise SigningError(f"{path} holds more than a key in PEM form: keep the key alone in the file.")
    return content, mode
