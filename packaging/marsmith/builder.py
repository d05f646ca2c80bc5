"""`marsmith build`: recipe -> archive."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from marsmith.errors import ArchiveError
from marsmith.evidence import golden, record, replay
from marsmith.evidence.accuracy import Accuracy
from marsmith.evidence.golden import Golden
from marsmith.evidence.provenance import inputs, provenance
from marsmith.evidence.sbom import sbom
from marsmith.ground.progress import Progress, silent
from marsmith.ground.serving import Engine
from marsmith.lint import lint, lint_recipe
from marsmith.lint.findings import Finding, refuse
from marsmith.lint.recipe import CHECKPOINT_CODES
from marsmith.lint.tree import Tree
from marsmith.mar.members import ACCURACY, GOLDEN, MANIFEST, PROVENANCE, SBOM, SERVING, Source, source_sha256
from marsmith.mar.verify import verify
from marsmith.mar.writer import write_archive
from marsmith.recipe import manifest
from marsmith.recipe.checkpoint import Checkpoint, resolve
from marsmith.recipe.members import MODEL, NO_CHECKPOINT, planned, serving
from marsmith.recipe.recipe import Recipe
from marsmith.targets import registry
from marsmith.targets.registry import MAR, Artefact
from marsmith.targets.target import Packed

if TYPE_CHECKING:
    from marsmith.network.convert import Converted

Members = dict[PurePosixPath, Source]


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
    warnings: list[Finding]
    parity: float | None = None
    engine: Engine | None = None
    note: str = ""
    accuracy: Accuracy | None = None

    @property
    def path(self) -> Path:
        """The first file that was written: the archive, unless only other targets were asked for."""
        return self.artefacts[0].path

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.artefacts[0].size


class _HandlerAlone:
    """What an archive without a checkpoint answers with."""

    checkpoint = None
    engine = None

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        settings = serving(recipe, NO_CHECKPOINT, recipe.labels or [])
        self.members: Members = {PurePosixPath(SERVING): settings.to_json()}
        self.products = [recipe.entry]

    def golden(self, members: Members, scratch: Path, progress: Progress) -> Golden:
        progress("asking the handler the golden requests")
        return record.record(self._recipe, members, scratch)

    def built(self, artefacts: tuple[Artefact, ...], members: int, golden: int, warnings: list[Finding]) -> Built:
        return Built(artefacts, members, golden, warnings)


class _HandlerWithNetwork:
    """What the archive of a checkpoint answers with."""

    def __init__(self, recipe: Recipe, checkpoint: Checkpoint, converted: Converted) -> None:
        self._recipe = recipe
        self._converted = converted
        self.checkpoint = checkpoint
        self.engine = converted.network.engine
        self.members: Members = {
            **converted.members,
            PurePosixPath(MANIFEST): manifest.manifest(recipe, checkpoint.source),
            PurePosixPath(SERVING): converted.serving.to_json(),
        }
        if converted.accuracy is not None:
            self.members[PurePosixPath(ACCURACY)] = converted.accuracy.to_json()
        self.products = [f"{MODEL}/{file}" for file in converted.network.files]

    def golden(self, members: Members, scratch: Path, progress: Progress) -> Golden:
        if self._recipe.handler:
            progress("asking the handler the golden requests")
            return record.record(self._recipe, members, scratch)
        progress("asking the checkpoint the golden requests")
        return golden.record(self._recipe, self.checkpoint.labels, self._converted.reference.probabilities)

    def built(self, artefacts: tuple[Artefact, ...], members: int, golden: int, warnings: list[Finding]) -> Built:
        network = self._converted.network
        return Built(
            artefacts,
            members,
            golden,
            warnings,
            parity=network.parity,
            engine=network.engine,
            note=network.note,
            accuracy=self._converted.accuracy,
        )


def build(source: Path | Recipe, out: Path, progress: Progress = silent, targets: Iterable[str] = (MAR,)) -> Built:
    """Build a recipe, or the path to one, for each of the targets.

    The files are `out`/NAME.mar, NAME.sagemaker.tar.gz and so on. The archive is linted before it is written, and
    answers its golden requests in a real worker before anything takes its name. `progress` is called with the name of
    each step. Raises MarsmithError; then nothing is written, but for the files of earlier targets where a later one
    cannot be written.
    """
    chosen = registry.chosen(targets)
    recipe = source if isinstance(source, Recipe) else Recipe.load(source)
    registry.check(chosen, recipe)
    _check_output(out)
    members: Members = planned(recipe, NO_CHECKPOINT)
    progress("linting")
    findings = lint_recipe(recipe)
    what = f"The archive of {recipe.name}"
    refuse([one for one in findings if one.code not in CHECKPOINT_CODES], what)

    def check(whole: Path) -> None:
        progress("asking the archive the golden requests")
        verify(whole).require_ok()
        replay.require_ok(replay.of_verified(whole), what)

    with tempfile.TemporaryDirectory(prefix="marsmith-") as directory:
        scratch = Path(directory)
        handler = _handler(recipe, members, scratch, progress)
        registry.check(chosen, recipe, handler.engine)
        members |= handler.members
        recorded = handler.golden(members, scratch, progress)
        members[PurePosixPath(GOLDEN)] = recorded.to_json()
        progress("writing down what it is made of")
        members |= _origin(recipe, handler, members)
        refuse(lint(Tree.of(members)), what)
        progress("writing the archive")
        archive = (out if MAR in chosen else scratch) / f"{recipe.name}.mar"
        written = write_archive(archive, members, check)
        artefacts = tuple(registry.write(chosen, Packed(recipe, archive, members, written), out, progress))
    return handler.built(artefacts, len(written), len(recorded.requests), findings)


def _handler(
    recipe: Recipe, members: Members, scratch: Path, progress: Progress
) -> _HandlerAlone | _HandlerWithNetwork:
    if recipe.checkpoint is None:
        return _HandlerAlone(recipe)
    progress("checking the checkpoint")
    checkpoint = resolve(recipe)
    from marsmith.network.convert import convert  # torch and transformers: seconds

    return _HandlerWithNetwork(recipe, checkpoint, convert(recipe, checkpoint, members, scratch, progress))


def _check_output(out: Path) -> None:
    """Raise ArchiveError before any work when the archive could not be written after it."""
    existing = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ArchiveError(f"The archives cannot be written to {out}: {existing} is no directory.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ArchiveError(f"The archives cannot be written to {out}: {existing} is not yours to write in.")


def _origin(recipe: Recipe, handler: _HandlerAlone | _HandlerWithNetwork, members: Members) -> Members:
    """The bill of materials, and what the network, or the handler that does without one, was made from."""
    own = [PurePosixPath(recipe.entry)] if recipe.handler else []
    names = [*own, *(name for name in members if name.is_relative_to(MODEL))]
    model = {str(name): source_sha256(members[name]) for name in names}
    products = {name: model[name] for name in handler.products}
    checkpoint = handler.checkpoint
    return {
        PurePosixPath(SBOM): sbom(recipe, checkpoint, manifest.requirements(recipe), model),
        PurePosixPath(PROVENANCE): provenance(recipe, checkpoint, inputs(recipe, checkpoint), products),
    }
