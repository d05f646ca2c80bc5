"""OCI image layouts as tar files, written without an engine: https://github.com/opencontainers/image-spec.

Layers are tar archives that are not compressed: weights hardly shrink, and what is mounted needs no unpacking.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from marsmith.mar.members import Members, Source, digest_of
from marsmith.targets.tarball import whole, write_tar

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
REFERENCE = "org.opencontainers.image.ref.name"
LAYOUT = {"imageLayoutVersion": "1.0.0"}
SCHEMA = 2

Descriptor = dict[str, Any]


@dataclass(slots=True)
class Layout:
    """The blobs of a layout; layers lie in `scratch` until it is written."""

    scratch: Path
    _blobs: dict[str, Source] = field(default_factory=dict)

    def layer(self, members: Members, media_type: str, annotations: Mapping[str, str] | None = None) -> Descriptor:
        """Add a layer of those members. Raises ArchiveError."""
        file = self.scratch / f"{len(self._blobs)}.tar"
        with whole(file) as stream:
            write_tar(stream, members)
        return self._add(file, media_type) | ({"annotations": dict(annotations)} if annotations else {})

    def json(self, value: Mapping[str, Any], media_type: str) -> Descriptor:
        """Add a JSON value."""
        return self._add(_json(value), media_type)

    def manifest(self, config: Descriptor, layers: list[Descriptor], **more: Any) -> Descriptor:
        """Add a manifest of a configuration and its layers, from the lowest up."""
        value = {"schemaVersion": SCHEMA, "mediaType": MANIFEST_TYPE, "config": config, "layers": layers, **more}
        return self.json(value, MANIFEST_TYPE)

    def index(self, manifests: list[Descriptor]) -> Descriptor:
        """Add an index of manifests that differ in their platform."""
        return self.json({"schemaVersion": SCHEMA, "mediaType": INDEX_TYPE, "manifests": manifests}, INDEX_TYPE)

    def write(self, path: Path, root: Descriptor, reference: str) -> None:
        """Write the layout of `root`, which is known by that reference, as a tar file. Raises ArchiveError."""
        manifests = [root | {"annotations": {REFERENCE: reference}}]
        members: dict[PurePosixPath, Source] = {
            PurePosixPath("oci-layout"): _json(LAYOUT),
            PurePosixPath("index.json"): _json(
                {"schemaVersion": SCHEMA, "mediaType": INDEX_TYPE, "manifests": manifests}
            ),
            **{PurePosixPath("blobs/sha256", digest): source for digest, source in self._blobs.items()},
        }
        with whole(path) as stream:
            write_tar(stream, members)

    def _add(self, source: Source, media_type: str) -> Descriptor:
        member = digest_of(source)
        self._blobs[member.sha256] = source
        return {"mediaType": media_type, "digest": f"sha256:{member.sha256}", "size": member.size}


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
