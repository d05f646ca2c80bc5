"""MAR-INF/signature.json: a DSSE envelope (https://github.com/secure-systems-lab/dsse, version 1).

Its payload is the sha256 of MAR-INF/digests.json, and so covers every other member's name and bytes. The file has one
spelling: whoever has the key can tell every byte of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from marsmith.errors import SigningError
from marsmith.ground.serving import dump_json
from marsmith.mar.members import DIGESTS, SIGNATURE

PAYLOAD_TYPE = "application/vnd.marsmith.digests+json"
SIGNATURE_BYTES = 64  # RFC 8032, section 5.1.6
KEY_ID = re.compile(r"[0-9a-f]{64}")


def key_id(key: Ed25519PublicKey) -> str:
    """The sha256 of a public key's 32 bytes in hexadecimal."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


def seal(key: Ed25519PrivateKey, digests: bytes) -> bytes:
    """The envelope for the content of MAR-INF/digests.json."""
    payload = _payload(digests)
    return _dump(payload, key_id(key.public_key()), key.sign(_pre_authentication(payload)))


def check(envelope: bytes, digests: bytes, key: Ed25519PublicKey | None) -> None:
    """Check an envelope against the digests; without a key, only that it is one and speaks of these digests.

    Raises SigningError with the reason.
    """
    key_name, signature = _parse(envelope)
    payload = _payload(digests)
    if envelope != _dump(payload, key_name, signature):
        raise SigningError(f"{SIGNATURE} is not as Marsmith writes it, or signs something else than {DIGESTS}")
    if key is None:
        return
    try:
        key.verify(signature, _pre_authentication(payload))
    except InvalidSignature:
        raise SigningError(f"{SIGNATURE} was not made with the key that you trust") from None
    if key_name != key_id(key):
        raise SigningError(f"{SIGNATURE} names another key than the one that made it")


def _parse(envelope: bytes) -> tuple[str, bytes]:
    """The key's id and the signature, as they are said to be."""
    try:
        (one,) = json.loads(envelope)["signatures"]
        key_name, signature = str(one["keyid"]), base64.b64decode(one["sig"], validate=True)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SigningError(f"{SIGNATURE} is no signature") from None
    if len(signature) != SIGNATURE_BYTES or not KEY_ID.fullmatch(key_name):
        raise SigningError(f"{SIGNATURE} is no Ed25519 signature")
    return key_name, signature


def _dump(payload: bytes, key_name: str, signature: bytes) -> bytes:
    signatures = [{"keyid": key_name, "sig": _encode(signature)}]
    return dump_json({"payloadType": PAYLOAD_TYPE, "payload": _encode(payload), "signatures": signatures})


def _payload(digests: bytes) -> bytes:
    return dump_json({"member": DIGESTS, "sha256": hashlib.sha256(digests).hexdigest()})


def _pre_authentication(payload: bytes) -> bytes:
    """What is signed: DSSE's PAE, which binds the payload to its type."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
