"""`marsmith inspect`: what an archive says of itself; archives made by others say less."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from marsmith.errors import ArchiveError
from marsmith.evidence.accuracy import Accuracy
from marsmith.ground.files import file_sha256, requirements_text
from marsmith.ground.limits import MAX_GOLDEN_BYTES, MAX_PAPER_BYTES
from marsmith.ground.untrusted import json_value, mapping, printable, strings
from marsmith.mar.assumptions import assumed, lint_was_overruled
from marsmith.mar.members import ACCURACY, GOLDEN, MANIFEST, SBOM, SERVING, SIGNATURE
from marsmith.mar.reader import open_archive, read_member, read_yaml

# What runs an archive's network, by the member that holds it.
ENGINES = {"model/model.onnx": "ONNX Runtime", "model/program.json": "PyTorch"}


@dataclass(frozen=True, slots=True)
class Card:
    """An archive at a glance. `size` is in bytes; `config` is model-config.yaml; `golden` counts golden requests.

    `accuracy` is what the build of a quantised network measured, empty for others. `signature` names the key that the
    archive says it was signed with: only `marsmith verify` proves it. `assumed` are the packages that its packer said
    the server has; `lint_overruled` says that it was packed whatever lint found.
    """

    name: str
    version: str
    handler: str
    task: str
    checkpoint: str
    precision: str
    engine: str
    labels: list[str]
    requirements: list[str]
    golden: int
    accuracy: dict[str, Any]
    signature: str
    license: str
    assumed: list[str]
    lint_overruled: bool
    config: dict[str, Any]
    members: int
    size: int
    sha256: str


def inspect(path: Path) -> Card:
    """Read an archive's card: whatever is in it, what cannot be read is said to be unknown. Raises ArchiveError."""
    with open_archive(path) as zip_file:

        def paper(member: str, limit: int = MAX_PAPER_BYTES) -> dict[str, Any]:
            return mapping(json_value(read_member(zip_file, member, limit)))

        manifest = paper(MANIFEST)
        model = mapping(manifest.get("model"))
        if "handler" not in model:
            raise ArchiveError(f"{path} has no {MANIFEST} that names a handler: TorchServe cannot serve it.")
        serving, ours = paper(SERVING), mapping(manifest.get("marsmith"))
        requirements = requirements_text(read_member(zip_file, str(model.get("requirementsFile")))) or "not readable"
        golden = paper(GOLDEN, MAX_GOLDEN_BYTES).get("requests")
        precision = printable(str(serving.get("precision", "unknown")))
        return Card(
            name=printable(str(model.get("modelName", path.stem))),
            version=printable(str(model.get("modelVersion", ""))),
            handler=printable(str(model["handler"])),
            task=printable(str(ours.get("task", "unknown (not built by Marsmith)"))),
            checkpoint=printable(str(ours.get("checkpoint", "unknown"))),
            precision=precision,
            engine=_engine(zip_file.namelist(), precision),
            labels=[printable(label) for label in strings(serving.get("labels"))],
            requirements=[printable(line) for line in requirements.splitlines() if line.strip()],
            golden=len(golden) if isinstance(golden, list) else 0,
            accuracy=_numbers(paper(ACCURACY)),
            signature=_signature(paper(SIGNATURE)),
            license=_license(paper(SBOM)),
            assumed=[printable(name) for name in assumed(manifest)],
            lint_overruled=lint_was_overruled(manifest),
            config=read_yaml(path, str(model.get("configFile"))),
            members=len(set(zip_file.namelist())),
            size=path.stat().st_size,
            sha256=file_sha256(path),
        )


def _numbers(accuracy: dict[str, Any]) -> dict[str, Any]:
    """How far a quantised network is from the checkpoint; empty where it is not said."""
    try:
        return Accuracy.model_validate(accuracy).model_dump(exclude={"precision"})
    except ValidationError:
        return {}


def _engine(members: list[str], precision: str) -> str:
    """What runs the network: none where a handler of one's own does without."""
    found = [name for member, name in ENGINES.items() if member in members]
    return found[0] if found else "none" if precision == "none" else "unknown"


def _signature(envelope: dict[str, Any]) -> str:
    try:
        return f"by key {printable(str(envelope['signatures'][0]['keyid']))}, to be verified" if envelope else "none"
    except (KeyError, IndexError, TypeError):
        return "not readable"


def _license(bill: dict[str, Any]) -> str:
    try:
        entry = bill["metadata"]["component"]["licenses"][0]
        return printable(str(entry.get("expression") or entry["license"].get("id") or entry["license"]["name"]))
    except (KeyError, IndexError, TypeError, AttributeError):
        return "not stated"
