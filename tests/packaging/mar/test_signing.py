"""Signatures: offline, over every name and byte, and never taken for valid when they are not."""

import base64
import errno
import io
import json
import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from marsmith.errors import ArchiveError, SigningError, VerifyError
from marsmith.ground.serving import dump_json
from marsmith.mar.envelope import PAYLOAD_TYPE
from marsmith.mar.keys import keygen
from marsmith.mar.members import SIGNATURE
from marsmith.mar.signing import sign
from marsmith.mar.verify import Report, verify
from marsmith.mar.writer import write_archive
from tests.packaging.forgery import content, members, rewritten, unpacked, write_sound


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    private = tmp_path_factory.mktemp("keys") / "ed25519.pem"
    return private, keygen(private)


@pytest.fixture
def signed(tmp_path: Path, keys: tuple[Path, Path]) -> Path:
    path = tmp_path / "m.mar"
    write_sound(path)
    sign(path, keys[0])
    return path


def required(path: Path, key: Path) -> Report:
    return verify(path, key, require_signature=True)


def forged(path: Path, signature: bytes | None) -> Path:
    """The archive with another signature, or none, and every zip record right."""
    files = [(name, data) for name, data in unpacked(path.read_bytes()) if name != SIGNATURE]
    path.write_bytes(rewritten(files if signature is None else [*files, (SIGNATURE, signature)]))
    return path


def signature_of(path: Path) -> bytes:
    return dict(unpacked(path.read_bytes()))[SIGNATURE]


def test_a_private_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        public = keygen(tmp_path / "new/key.pem")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "new/key.pem").stat().st_mode) == 0o600
    assert public == tmp_path / "new/key.pub"
    assert b"PRIVATE" not in public.read_bytes()


@pytest.mark.parametrize("step", ["write", "fsync", "link", "second link", "sync of the directory"])
def test_a_full_disk_leaves_no_key_and_no_half_of_one(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    links: list[Path] = []

    def link(source: Path, target: Path) -> None:
        links.append(target)
        if step == "link" or len(links) == 2:
            raise FileExistsError(errno.EEXIST, "raced", str(source), None, str(target))
        Path(target).hardlink_to(source)

    def fail(*_: object) -> None:
        raise full

    if step == "write":
        monkeypatch.setattr("marsmith.mar.keys.os.fdopen", lambda handle, _: FullStream(handle, "wb"))
    elif step == "fsync":
        monkeypatch.setattr("marsmith.mar.keys.os.fsync", fail)
    elif step == "sync of the directory":
        monkeypatch.setattr("marsmith.mar.keys.sync_directory", fail)
    else:
        monkeypatch.setattr("marsmith.mar.keys.os.link", link)
    with pytest.raises(SigningError, match=r"cannot be written: No space left on device|is there already"):
        keygen(tmp_path / "key.pem")
    assert list(tmp_path.iterdir()) == []


class FullStream(io.FileIO):
    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_system_without_hard_links_holds_keys_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("marsmith.mar.keys.os.link", link)
    keygen(tmp_path / "key.pem")
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {
        "key.pem": 0o600,
        "key.pub": 0o644,
    }
    (tmp_path / "key.pub").unlink()
    with pytest.raises(SigningError, match=r"key\.pem is there already"):
        keygen(tmp_path / "key.pem")


@pytest.mark.parametrize("existing", ["key.pem", "key.pub"])
def test_a_key_is_never_overwritten(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).write_text("precious")
    with pytest.raises(SigningError, match=f"{existing} is there already"):
        keygen(tmp_path / "key.pem")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {existing: "precious"}


def test_a_signed_archive_is_valid_and_the_rest_of_it_unchanged(signed: Path, keys: tuple[Path, Path]) -> None:
    report = required(signed, keys[1])
    assert (report.ok, report.signature, report.sealed) == (True, "valid", True)
    assert {name: data for name, data in unpacked(signed.read_bytes()) if name in content()} == content()
    assert verify(signed).signature == "unchecked"


def test_signing_again_replaces_the_signature_and_repeats_its_bytes(signed: Path, keys: tuple[Path, Path]) -> None:
    before = signed.read_bytes()
    sign(signed, keys[0])
    assert signed.read_bytes() == before
    keygen(signed.with_name("other.pem"))
    sign(signed, signed.with_name("other.pem"))
    assert required(signed, signed.with_name("other.pub")).ok
    assert required(signed, keys[1]).signature == "bad"


def test_a_removed_signature_is_missed(signed: Path, keys: tuple[Path, Path]) -> None:
    (problem,) = required(forged(signed, None), keys[1]).problems
    assert (problem.kind, problem.member, problem.message) == ("signature", SIGNATURE, "it is not signed")
    assert not verify(signed, keys[1]).ok  # a key that is given must have signed
    assert verify(signed).signature == "none"


def test_a_signature_of_another_archive_is_no_signature(signed: Path, tmp_path: Path, keys: tuple[Path, Path]) -> None:
    write_archive(tmp_path / "other.mar", members({"a.py": b"1"}))
    sign(tmp_path / "other.mar", keys[0])
    report = required(forged(signed, signature_of(tmp_path / "other.mar")), keys[1])
    assert (report.signature, report.problems[0].member) == ("bad", SIGNATURE)
    assert verify(signed).signature == "bad"  # even without a key it speaks of other digests


def test_a_change_with_new_digests_needs_the_key(signed: Path, tmp_path: Path, keys: tuple[Path, Path]) -> None:
    """Whoever can write the archive can write its digests too."""
    signature = signature_of(signed)
    write_archive(signed, members(content() | {"m.py": b"evil"}))
    assert verify(signed).ok
    assert required(forged(signed, signature), keys[1]).signature == "bad"


@pytest.mark.parametrize(
    "change",
    [
        {"payloadType": "text/plain"},
        {"payload": base64.b64encode(b"{}").decode()},
        {"payload": "no base64!"},
        {"payload": None},
        {"signatures": []},
        {"signatures": [{"sig": base64.b64encode(bytes(64)).decode()}]},
        {"signatures": [{"sig": ""}]},
        {"signatures": "none"},
        {"approved-by": "somebody"},
    ],
    ids=lambda change: "-".join(f"{key}={str(value)[:10]}" for key, value in change.items()),
)
def test_a_signature_that_was_touched_is_bad(signed: Path, keys: tuple[Path, Path], change: dict[str, object]) -> None:
    envelope = json.loads(signature_of(signed)) | change
    assert required(forged(signed, json.dumps(envelope).encode()), keys[1]).signature == "bad"


def test_nothing_can_be_added_to_a_signature(signed: Path, keys: tuple[Path, Path]) -> None:
    """Whoever reads the envelope may take all of it for signed."""
    envelope = json.loads(signature_of(signed))
    (one,) = envelope["signatures"]
    for signatures in ([one, one], [{**one, "keyid": "ab" * 32}], [{**one, "note": "trust me"}]):
        touched = dump_json({**envelope, "signatures": signatures})
        assert required(forged(signed, touched), keys[1]).signature == "bad"
    assert required(forged(signed, dump_json(envelope)), keys[1]).signature == "valid"
    assert required(forged(signed, json.dumps(envelope).encode()), keys[1]).signature == "bad"


def test_signing_through_a_link_signs_what_it_leads_to(signed: Path, tmp_path: Path, keys: tuple[Path, Path]) -> None:
    forged(signed, None)
    (tmp_path / "link.mar").symlink_to(signed)
    sign(tmp_path / "link.mar", keys[0])
    assert (tmp_path / "link.mar").is_symlink()
    assert required(signed, keys[1]).ok


@pytest.mark.parametrize("name", [".", "", "/"])
def test_a_key_needs_a_file_name(name: str) -> None:
    with pytest.raises(SigningError, match="is a directory"):
        keygen(Path(name))


@pytest.mark.parametrize("junk", [b"", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"payload": 1}'])
def test_junk_is_no_signature(signed: Path, keys: tuple[Path, Path], junk: bytes) -> None:
    assert required(forged(signed, junk), keys[1]).signature == "bad"
    assert not verify(signed).ok


def test_requiring_a_signature_needs_a_key(signed: Path) -> None:
    with pytest.raises(SigningError, match="name it with --key"):
        verify(signed, require_signature=True)


def test_the_envelope_is_dsse(signed: Path, keys: tuple[Path, Path]) -> None:
    """Whoever has the public key can check it without Marsmith, from the specification of DSSE alone."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    envelope = json.loads(signature_of(signed))
    payload = base64.b64decode(envelope["payload"])
    signed_bytes = f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(payload)} ".encode() + payload
    key = load_pem_public_key(keys[1].read_bytes())
    assert isinstance(key, ed25519.Ed25519PublicKey)
    key.verify(base64.b64decode(envelope["signatures"][0]["sig"]), signed_bytes)


def test_what_is_not_sound_is_never_signed(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    path = tmp_path / "m.mar"
    data = bytearray(write_sound(path))
    data[data.index(b"model/model.weights") + 100] ^= 1
    path.write_bytes(data)
    with pytest.raises(VerifyError, match=r"m\.mar is not to be trusted: the content of model/model.weights"):
        sign(path, keys[0])
    path.write_bytes(data[:50])
    with pytest.raises(VerifyError, match=r"m\.mar is not to be trusted: the end of the archive is missing"):
        sign(path, keys[0])
    path.write_bytes(rewritten([("a.py", b"")]))
    with pytest.raises(SigningError, match=r"has no MAR-INF/digests\.json to sign"):
        sign(path, keys[0])
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ArchiveError, match="There is no archive"):
        sign(tmp_path / "nowhere.mar", keys[0])


def test_keys_that_cannot_be_used_are_one_sentence(signed: Path, tmp_path: Path, keys: tuple[Path, Path]) -> None:
    def write(content: bytes, mode: int = 0o600) -> Path:
        path = tmp_path / "key"
        path.write_bytes(content)
        path.chmod(mode)
        return path

    other = ec.generate_private_key(ec.SECP256R1())
    secret = BestAvailableEncryption(b"secret")
    encrypted = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret)
    for path, says in [
        (tmp_path / "nowhere", "cannot be read: No such file"),
        (write(keys[0].read_bytes(), 0o644), "open to other users: chmod 600"),
    ]:
        with pytest.raises(SigningError, match=says):
            sign(signed, path)
    for data, says in [
        (b"junk", "not a private key in PEM form"),
        (keys[1].read_bytes(), "is a public key: give the private one"),
        (encrypted, "is encrypted"),
        (other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), "not an Ed25519 key"),
    ]:
        with pytest.raises(SigningError, match=says):
            sign(signed, write(data))
    with pytest.raises(SigningError, match="is a private key: give the public one"):
        verify(signed, keys[0])
