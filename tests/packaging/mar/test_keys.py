"""Key files: one key each, of the kind that is asked for, and none that anybody can sign for."""

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from marsmith.errors import SigningError
from marsmith.mar.curve import PRIME, is_weak
from marsmith.mar.keys import keygen, read_private_key, read_public_key

# The y coordinates of the eight points of small order (RFC 7748's curve in Edwards form): orders 1, 2, 4, 8 and 8.
EIGHTH = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
SMALL_ORDER = [1, PRIME - 1, 0, EIGHTH, PRIME - EIGHTH]
SIGN = 1 << 255


@pytest.fixture
def private(tmp_path: Path) -> Path:
    keygen(tmp_path / "key.pem")
    return tmp_path / "key.pem"


def pem(number: int) -> bytes:
    key = Ed25519PublicKey.from_public_bytes(number.to_bytes(32, "little"))
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("y", SMALL_ORDER)
@pytest.mark.parametrize("sign", [0, SIGN])
def test_a_key_of_small_order_is_refused(tmp_path: Path, y: int, sign: int) -> None:
    (tmp_path / "key.pub").write_bytes(pem(y | sign))
    with pytest.raises(SigningError, match="weak key, for which anybody can sign"):
        read_public_key(tmp_path / "key.pub")


@pytest.mark.parametrize("number", [PRIME, PRIME + 1, PRIME + 18, SIGN | PRIME + 1, (1 << 256) - 1])
def test_a_second_spelling_of_a_point_is_refused(tmp_path: Path, number: int) -> None:
    (tmp_path / "key.pub").write_bytes(pem(number))
    with pytest.raises(SigningError, match="weak key"):
        read_public_key(tmp_path / "key.pub")


def test_what_is_not_on_the_curve_is_refused() -> None:
    assert is_weak((2).to_bytes(32, "little"))


def test_every_key_that_is_made_is_strong() -> None:
    for _ in range(20):
        key = Ed25519PrivateKey.generate().public_key()
        assert not is_weak(key.public_bytes(Encoding.Raw, PublicFormat.Raw))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda key, other: key + other, "holds 2 keys"),
        (lambda key, other: key + b"trusted since 2020\n", "holds more than a key"),
        (lambda key, other: b"My key:\n" + key, "holds more than a key"),
        (lambda key, other: key.replace(b"PUBLIC KEY", b"PRIVATE KEY"), "is a private key: give the public one"),
        (lambda key, other: key.replace(b"-----END PUBLIC", b"-----END OTHER"), "holds more than a key"),
        (lambda key, other: key + bytes(1 << 20), "holds more than a key"),
        (lambda key, other: b"", "not a public key"),
        (lambda key, other: b"\x00\xff", "not a public key"),
    ],
)
def test_a_public_key_file_holds_one_public_key(tmp_path: Path, change, says: str) -> None:  # type: ignore[no-untyped-def]
    first, second = (keygen(tmp_path / f"{name}.pem").read_bytes() for name in "ab")
    (tmp_path / "key.pub").write_bytes(change(first, second))
    with pytest.raises(SigningError, match=says):
        read_public_key(tmp_path / "key.pub")


def test_the_private_key_is_not_taken_for_the_public_one(private: Path) -> None:
    with pytest.raises(SigningError, match="is a private key: give the public one"):
        read_public_key(private)
    public = private.with_suffix(".pub")
    public.chmod(0o600)
    with pytest.raises(SigningError, match="is a public key: give the private one"):
        read_private_key(public)


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    key = generate_private_key(SECP256R1()).public_key()
    (tmp_path / "key.pub").write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(SigningError, match="not an Ed25519 key"):
        read_public_key(tmp_path / "key.pub")


def test_line_ends_and_a_byte_order_mark_do_not_matter(private: Path) -> None:
    public = private.with_suffix(".pub")
    content = public.read_bytes()
    public.write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n") + b"\n\n")
    assert read_public_key(public) == read_private_key(private).public_key()


def test_a_pipe_a_device_and_a_directory_are_no_keys(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(SigningError, match="not a regular file"):
            read_public_key(path)
        with pytest.raises(SigningError, match="not a regular file"):
            read_private_key(path)
    with pytest.raises(SigningError, match="Is a directory"):
        read_public_key(tmp_path)
