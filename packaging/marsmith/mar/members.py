"""The members that every archive has, by name, and what an archive says of each: its size and digests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from marsmith.ground.files import file_sha256
from marsmith.ground.serving import dump_json

MANIFEST = "MAR-INF/MANIFEST.json"
DIGESTS = "MAR-INF/digests.json"
SIGNATURE = "MAR-INF/signature.json"
GOLDEN = "MAR-INF/golden.json"
ACCURACY = "MAR-INF/accuracy.json"
SBOM = "MAR-INF/sbom.cdx.json"
PROVENANCE = "MAR-INF/provenance.json"
SERVING = "model/serving.json"
CONFIG = "model-config.yaml"
REQUIREMENTS = "requirements.txt"
# They seal the rest, so they stand last and stored: one bit of them more or less shows in their CRC.
SEALS = (DIGESTS, SIGNATURE)

Source = bytes | Path
Members = Mapping[PurePosixPath, Source]


@dataclass(frozen=True, slots=True)
class Digest:
    """One member's size in bytes and its sha256 in hexadecimal.

    `deflated` is the sha256 of the member as it lies in the archive, where that is not its content: two deflate
    streams may hold one content.
    """

    size: int
    sha256: str
    deflated: str | None = None

    def entry(self) -> dict[str, object]:
        """What digests.json says of the member."""
        deflated = {"deflated": self.deflated} if self.deflated else {}
        return {"size": self.size, "sha256": self.sha256, **deflated}


def digests_json(written: Mapping[str, Digest]) -> bytes:
    """MAR-INF/digests.json: every other member's size and digests."""
    members = {name: written[name].entry() for name in sorted(written)}
    return dump_json({"algorithm": "sha256", "members": members})


def source_sha256(source: Source) -> str:
    """The sha256 of what a member will hold, in hexadecimal."""
    return hashlib.sha256(source).hexdigest() if isinstance(source, bytes) else file_sha256(source)


def digest_of(source: Source) -> Digest:
    """What a member would be that is not deflated. Raises OSError."""
    return Digest(len(source) if isinstance(source, bytes) else source.stat().st_size, source_sha256(source))
