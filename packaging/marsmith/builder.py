"""`marsmith build`: recipe -> archive."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from marsmith import golden, manifest, mar, replay
from marsmith.checkpoint import TEXT_LAYOUTS, Checkpoint, resolve
from marsmith.errors import ArchiveError
from marsmith.lint import lint, lint_recipe
from marsmith.lint.findings import Finding, refuse
from marsmith.lint.tree import Tree
from marsmith.network import Engine, Network, write_network
from marsmith.planned import MODEL, planned
from marsmith.progress import Progress, silent
from marsmith.provenance import inputs, provenance
from marsmith.recipe import Recipe
from marsmith.sbom import sbom
from marsmith.serving import Options, Serving, dump_json

Members = dict[PurePosixPath, mar.Source]


@dataclass(frozen=True, slots=True)
class Built:
    """An archive that was written: its size in bytes, and how many golden requests it answered.

    `parity` is the largest difference of its logits from the checkpoint's, `warnings` what lint thinks may be meant
    otherwise, `engine` what runs the network, and `note` why it is not ONNX Runtime, where that is so.
    """

    path: Path
    size: int
    members: int
    golden: int
    parity: float
    warnings: list[Finding]
    engine: Engine
    note: str


def build(recipe_path: Path, out: Path, progress: Progress = silent) -> Built:
    """Build the archive `out`/NAME.mar of a recipe. `progress` hears the name of each step.

    The archive is linted before it is written, and answers its golden requests in a real worker before it takes its
    name. Raises MarsmithError; then nothing is written.
    """
    recipe = Recipe.load(recipe_path)
    _check_output(out)
    progress("checking the checkpoint")
    checkpoint = resolve(recipe)
    members = planned(recipe, checkpoint.source)
    progress("linting")
    findings = lint_recipe(recipe_path)
    refuse(findings, f"The archive of {recipe.name}")
    progress("loading the checkpoint")
    reference = _reference(recipe, checkpoint)
    with tempfile.TemporaryDirectory(prefix="marsmith-") as scratch:
        progress(_exporting(recipe, checkpoint))
        network = write_network(reference, Path(scratch), progress)
        members |= _model_members(recipe, checkpoint, reference)
        members |= {MODEL / name: Path(scratch) / name for name in network.files}
        progress("asking the checkpoint the golden requests")
        recorded = golden.record(recipe, checkpoint.labels, reference)
        members[PurePosixPath(mar.GOLDEN)] = recorded.to_json()
        progress("writing down what it is made of")
        members |= _papers(recipe, checkpoint, network, members)

        def check(whole: Path) -> None:
            progress("asking the archive the golden requests")
            replay.require_ok(replay.in_worker(whole), f"The archive of {recipe.name}")

        refuse(lint(Tree.of(members)), f"The archive of {recipe.name}")
        progress("writing the archive")
        path = out / f"{recipe.name}.mar"
        written = mar.write(path, members, check)
    size, golden_requests = path.stat().st_size, len(recorded.requests)
    return Built(path, size, len(written), golden_requests, network.parity, findings, network.engine, network.note)


def _exporting(recipe: Recipe, checkpoint: Checkpoint) -> str:
    family = checkpoint.config.get("model_type")
    if recipe.task == "sentiment" and family not in TEXT_LAYOUTS:
        return f"exporting the network (no test covers {family} models: this one is kept only if the export agrees)"
    return "exporting the network"


def _check_output(out: Path) -> None:
    """Raise ArchiveError before any work when the archive could not be written after it."""
    existing = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ArchiveError(f"The archives cannot be written to {out}: {existing} is no directory.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ArchiveError(f"The archives cannot be written to {out}: {existing} is not yours to write in.")


def _model_members(recipe: Recipe, checkpoint: Checkpoint, reference: Any) -> Members:
    """How the network is fed, and what the checkpoint says of itself."""
    serving = Serving(
        name=recipe.name,
        version=recipe.version,
        precision=recipe.precision,
        labels=checkpoint.labels,
        options=Options(top_k=recipe.top_k),
        **{"text" if recipe.task == "sentiment" else "image": reference.settings},
    )
    config = {key: value for key, value in checkpoint.config.items() if key != "_name_or_path"}
    return {
        MODEL / "serving.json": serving.to_json(),
        MODEL / "config.json": dump_json(config),
        **{MODEL / name: content for name, content in reference.preprocessing().items()},
    }


def _papers(recipe: Recipe, checkpoint: Checkpoint, network: Network, members: Members) -> Members:
    """The bill of materials, and what the network was made from."""
    model = {str(name): mar.source_sha256(source) for name, source in members.items() if name.is_relative_to(MODEL)}
    products = {name: model[name] for name in (f"{MODEL}/{file}" for file in network.files)}
    return {
        PurePosixPath(mar.SBOM): sbom(recipe, checkpoint, manifest.requirements(recipe.task), model),
        PurePosixPath(mar.PROVENANCE): provenance(recipe, checkpoint, inputs(recipe, checkpoint), products),
    }


def _reference(recipe: Recipe, checkpoint: Any) -> Any:
    from marsmith.reference import ImageReference, TextReference  # torch and transformers: seconds

    if recipe.task == "sentiment":
        return TextReference(checkpoint, recipe.normalise, recipe.long_text)
    return ImageReference(checkpoint)
