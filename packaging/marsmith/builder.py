"""`marsmith build`: recipe -> archive."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from marsmith.errors import ArchiveError, CheckpointError
from marsmith.evidence import golden, record, replay
from marsmith.evidence.accuracy import Accuracy
from marsmith.evidence.provenance import inputs, provenance
from marsmith.evidence.sbom import sbom
from marsmith.ground.progress import Progress, silent
from marsmith.ground.serving import Options, Serving, dump_json
from marsmith.lint import lint, lint_recipe
from marsmith.lint.findings import Finding, refuse
from marsmith.lint.recipe import CHECKPOINT_CODES
from marsmith.lint.tree import Tree
from marsmith.mar import mar
from marsmith.mar.verify import verify
from marsmith.network.choose import Engine, Network, write_network
from marsmith.network.precision import in_precision
from marsmith.network.prepared import asking
from marsmith.recipe import manifest
from marsmith.recipe.checkpoint import TEXT_LAYOUTS, Checkpoint, resolve
from marsmith.recipe.members import MODEL, planned
from marsmith.recipe.recipe import Recipe
from marsmith.targets.homes import HOMES, MAR, Artefact, Target, chosen
from marsmith.targets.packed import Packed

Members = dict[PurePosixPath, mar.Source]

# The folder of an archive that holds the handlers' library.
HANDLERS = "handlers"
# What an archive without a network says of its checkpoint and its precision.
NO_CHECKPOINT = "none"


@dataclass(frozen=True, slots=True)
class Built:
    """What was written, and how many golden requests the archive answered. `members` are the archive's.

    `engine` is what runs the network, `parity` the largest difference of its logits from the checkpoint's; both are
    None without a network. `note` says why it is not ONNX Runtime, where that is so, `accuracy` how far a quantised one
    is from the checkpoint, `warnings` what lint thinks may be meant otherwise.
    """

    artefacts: tuple[Artefact, ...]
    members: int
    golden: int
    parity: float | None
    warnings: list[Finding]
    engine: Engine | None
    note: str
    accuracy: Accuracy | None

    @property
    def path(self) -> Path:
        """The first file that was written: the archive, unless only other targets were asked for."""
        return self.artefacts[0].path

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.artefacts[0].size


def build(source: Path | Recipe, out: Path, progress: Progress = silent, targets: Iterable[str] = (MAR,)) -> Built:
    """Build a recipe, or the path to one, for each of the targets. `progress` hears the name of each step.

    The files are `out`/NAME.mar, NAME.sagemaker.tar.gz and so on. The archive is linted before it is written, and
    answers its golden requests in a real worker before anything takes its name. Raises MarsmithError; then nothing is
    written, but for the files of earlier targets where a later one cannot be written.
    """
    homes = chosen(targets)
    recipe = source if isinstance(source, Recipe) else Recipe.load(source)
    _check_homes(homes, recipe)
    _check_output(out)
    members = planned(recipe, NO_CHECKPOINT)
    progress("linting")
    findings = lint_recipe(recipe)
    refuse([one for one in findings if one.code not in CHECKPOINT_CODES], f"The archive of {recipe.name}")
    checkpoint = None
    if recipe.checkpoint is not None:
        progress("checking the checkpoint")
        checkpoint = resolve(recipe)
        members[PurePosixPath(mar.MANIFEST)] = manifest.manifest(recipe, checkpoint.source)
    reference: Any = None
    network = accuracy = None
    with tempfile.TemporaryDirectory(prefix="marsmith-") as scratch:
        if checkpoint is not None:
            progress("loading the checkpoint")
            reference = _reference(recipe, checkpoint)
            progress("comparing what the handlers feed the network with the checkpoint's own preprocessing")
            _check_preprocessing(recipe, checkpoint, reference, members)
            progress(_exporting(recipe, checkpoint))
            network = write_network(reference, Path(scratch), progress)
            packed, accuracy = in_precision(recipe, reference, network, Path(scratch), progress)
            members |= _network_members(checkpoint, reference, network, packed)
            _check_homes(homes, recipe, network.engine)
        members[PurePosixPath(mar.SERVING)] = _serving(recipe, checkpoint, reference).to_json()
        if checkpoint is None or recipe.handler:
            progress("asking the handler the golden requests")
            recorded = record.record(recipe, members, Path(scratch))
        else:
            progress("asking the checkpoint the golden requests")
            recorded = golden.record(recipe, checkpoint.labels, reference)
        members[PurePosixPath(mar.GOLDEN)] = recorded.to_json()
        if accuracy is not None:
            members[PurePosixPath(mar.ACCURACY)] = accuracy.to_json()
        progress("writing down what it is made of")
        members |= _papers(recipe, checkpoint, network, members)

        def check(whole: Path) -> None:
            progress("asking the archive the golden requests")
            verify(whole).require_ok()
            replay.require_ok(replay.of_verified(whole), f"The archive of {recipe.name}")

        refuse(lint(Tree.of(members)), f"The archive of {recipe.name}")
        progress("writing the archive")
        archive = (out if MAR in homes else Path(scratch)) / f"{recipe.name}.mar"
        written = mar.write(archive, members, check)
        artefacts = tuple(_write_homes(homes, Packed(recipe, archive, members, written), out, progress))
    return Built(
        artefacts,
        members=len(written),
        golden=len(recorded.requests),
        parity=network.parity if network else None,
        warnings=findings,
        engine=network.engine if network else None,
        note=network.note if network else "",
        accuracy=accuracy,
    )


def _exporting(recipe: Recipe, checkpoint: Checkpoint) -> str:
    family = checkpoint.config.get("model_type")
    if recipe.kind.section == "text" and family not in TEXT_LAYOUTS:
        return f"exporting the network (no test covers {family} models: this one is kept only if the export agrees)"
    return "exporting the network"


def _check_output(out: Path) -> None:
    """Raise ArchiveError before any work when the archive could not be written after it."""
    existing = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ArchiveError(f"The archives cannot be written to {out}: {existing} is no directory.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ArchiveError(f"The archives cannot be written to {out}: {existing} is not yours to write in.")


def _check_homes(homes: Iterable[Target], recipe: Recipe, engine: Engine | None = None) -> None:
    for target in homes:
        if target != MAR:
            HOMES[target].check(recipe, engine)


def _write_homes(homes: Iterable[Target], packed: Packed, out: Path, progress: Progress) -> Iterator[Artefact]:
    for target in homes:
        progress(f"writing for {target}")
        for path in [packed.archive] if target == MAR else HOMES[target].write(packed, out):
            yield Artefact(target, path, path.stat().st_size)


def _serving(recipe: Recipe, checkpoint: Checkpoint | None, reference: Any) -> Serving:
    """How the network is fed, and what its logits mean."""
    return Serving(
        name=recipe.name,
        version=recipe.version,
        precision=recipe.precision if checkpoint else NO_CHECKPOINT,
        labels=checkpoint.labels if checkpoint else recipe.labels or [],
        options=Options(top_k=recipe.top_k, explain_runs=recipe.explain_runs),
        **({recipe.kind.section: reference.settings} if recipe.kind.section else {}),
    )


def _network_members(checkpoint: Checkpoint, reference: Any, network: Network, directory: Path) -> Members:
    """The network that was written there, and what the checkpoint says of itself."""
    config = {key: value for key, value in checkpoint.config.items() if key != "_name_or_path"}
    return {
        **{MODEL / file: directory / file for file in network.files},
        MODEL / "config.json": dump_json(config),
        **{MODEL / name: content for name, content in reference.preprocessing().items()},
    }


def _papers(recipe: Recipe, checkpoint: Checkpoint | None, network: Network | None, members: Members) -> Members:
    """The bill of materials, and what the network, or the handler that does without one, was made from."""
    own = [PurePosixPath(recipe.entry)] if recipe.handler else []
    names = [*own, *(name for name in members if name.is_relative_to(MODEL))]
    model = {str(name): mar.source_sha256(members[name]) for name in names}
    products = [f"{MODEL}/{file}" for file in network.files] if network else [recipe.entry]
    materials = inputs(recipe, checkpoint)
    return {
        PurePosixPath(mar.SBOM): sbom(recipe, checkpoint, manifest.requirements(recipe), model),
        PurePosixPath(mar.PROVENANCE): provenance(
            recipe, checkpoint, materials, {name: model[name] for name in products}
        ),
    }


def _check_preprocessing(recipe: Recipe, checkpoint: Checkpoint, reference: Any, members: Members) -> None:
    """Raise CheckpointError where the handlers prepare inputs otherwise than the checkpoint's own preprocessing."""
    from marsmith.network.image_probes import check_images  # torch and transformers: seconds
    from marsmith.network.text_probes import check_texts

    asked = {name: source for name, source in members.items() if name.parts[0] == HANDLERS}
    asked[PurePosixPath(mar.SERVING)] = _serving(recipe, checkpoint, reference).to_json()
    asked |= {MODEL / name: content for name, content in reference.preprocessing().items()}
    with tempfile.TemporaryDirectory(prefix="marsmith-") as scratch:
        check = check_texts if recipe.kind.section == "text" else check_images
        check(reference, asking(asked, Path(scratch)))
    # A network that cannot read what its own preprocessing makes is told from one that cannot be exported.
    next(iter(reference.cases()))


def _reference(recipe: Recipe, checkpoint: Any) -> Any:
    from marsmith.network.image_reference import ImageReference  # torch and transformers: seconds
    from marsmith.network.text_reference import TextReference

    if recipe.kind.section == "text":
        reference = TextReference(checkpoint, recipe.normalise, recipe.long_text)
        if recipe.explain and reference.settings.mask_token is None:
            raise CheckpointError(
                "The tokenizer has neither a mask token nor one for unknown words, so nothing can stand for what an "
                "explanation leaves out: build with explain = false."
            )
        return reference
    return ImageReference(checkpoint, recipe.decode)
