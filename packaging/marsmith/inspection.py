"""`marsmith inspect`: what an archive says of itself; archives made by others say less."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marsmith import mar
from marsmith.digest import file_sha256
from marsmith.errors import ArchiveError

SERVING = "model/serving.json"


@dataclass(frozen=True, slots=True)
class Card:
    """An archive at a glance. `size` is in bytes; `config` is model-config.yaml; `golden` counts golden requests.

    `signature` names the key that the archive says it was signed with: only `marsmith verify` proves it.
    """

    name: str
    version: str
    handler: str
    task: str
    checkpoint: str
    precision: str
    labels: list[str]
    requirements: list[str]
    golden: int
    signature: str
    license: str
    config: dict[str, Any]
    members: int
    size: int
    sha256: str


def inspect(path: Path) -> Card:
    """Read an archive's card. Raises ArchiveError."""
    with mar.opened(path) as zip_file:
        names = set(zip_file.namelist())

        def text(member: str | None) -> str:
            return zip_file.read(member).decode("utf-8") if member in names else ""

        manifest = json.loads(text(mar.MANIFEST) or "{}")
        model = manifest.get("model") if isinstance(manifest, dict) else None
        if not isinstance(model, dict) or "handler" not in model:
            raise ArchiveError(f"{path} has no {mar.MANIFEST} that names a handler: TorchServe cannot serve it.")
        serving = _object(text(SERVING))
        ours = manifest.get("marsmith")
        ours = ours if isinstance(ours, dict) else {}
        return Card(
            name=str(model.get("modelName", path.stem)),
            version=str(model.get("modelVersion", "")),
            handler=str(model["handler"]),
            task=str(ours.get("task", "unknown (not built by Marsmith)")),
            checkpoint=str(ours.get("checkpoint", "unknown")),
            precision=str(serving.get("precision", "unknown")),
            labels=[str(label) for label in serving.get("labels", [])],
            requirements=text(model.get("requirementsFile")).split(),
            golden=len(_object(text(mar.GOLDEN)).get("requests", [])),
            signature=_signature(_object(text(mar.SIGNATURE))),
            license=_license(_object(text(mar.SBOM))),
            config=mar.read_yaml(path, str(model.get("configFile"))),
            members=len(names),
            size=path.stat().st_size,
            sha256=file_sha256(path),
        )


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text or "{}")
    return value if isinstance(value, dict) else {}


def _signature(envelope: dict[str, Any]) -> str:
    try:
        return f"by key {envelope['signatures'][0]['keyid']}, to be verified" if envelope else "none"
    except (KeyError, IndexError, TypeError):
        return "not readable"


def _license(bill: dict[str, Any]) -> str:
    try:
        entry = bill["metadata"]["component"]["licenses"][0]
        return str(entry.get("expression") or entry["license"].get("id") or entry["license"]["name"])
    except (KeyError, IndexError, TypeError, AttributeError):
        return "not stated"
