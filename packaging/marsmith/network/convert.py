"""Checkpoint -> what an archive holds of it: the network, what feeds it, and proof that both answer as it does."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import cast

from marsmith.errors import CheckpointError
from marsmith.evidence.accuracy import Accuracy
from marsmith.ground.progress import Progress
from marsmith.ground.serving import Serving, dump_json
from marsmith.mar.members import SERVING, Source
from marsmith.network.choose import Network, write_network
from marsmith.network.image_probes import check_images
from marsmith.network.image_reference import ImageReference
from marsmith.network.precision import in_precision
from marsmith.network.prepared import asking
from marsmith.network.reference import Reference
from marsmith.network.text_probes import check_texts
from marsmith.network.text_reference import TextReference
from marsmith.recipe.checkpoint import TEXT_LAYOUTS, Checkpoint
from marsmith.recipe.members import HANDLERS, MODEL, serving
from marsmith.recipe.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Converted:
    """A checkpoint's network in the recipe's precision, and the checkpoint itself to compare with.

    `members` are what the archive holds of it; `accuracy` is how far a quantised network is from the checkpoint, None
    where it is not quantised.
    """

    reference: Reference
    serving: Serving
    network: Network
    members: Mapping[PurePosixPath, Source]
    accuracy: Accuracy | None


def convert(
    recipe: Recipe, checkpoint: Checkpoint, planned: Mapping[PurePosixPath, Source], scratch: Path, progress: Progress
) -> Converted:
    """Convert a checkpoint for the archive of the `planned` members, with files in the empty directory `scratch`.

    Raises CheckpointError for a checkpoint that does not load, or whose preprocessing the handlers do not repeat,
    ExportError for a network that no engine runs, and RecipeError and AccuracyError for a precision that it cannot
    have.
    """
    progress("loading the checkpoint")
    if recipe.kind.section == "text":
        texts = _text(recipe, checkpoint)
        reference, check = cast(Reference, texts), partial(check_texts, texts)
    else:
        images = ImageReference(checkpoint, recipe.decode)
        reference, check = cast(Reference, images), partial(check_images, images)
    settings = serving(recipe, recipe.precision, checkpoint.labels, reference.settings)
    progress("comparing what the handlers feed the network with the checkpoint's own preprocessing")
    beside = {MODEL / name: content for name, content in reference.preprocessing().items()}
    handlers = {name: source for name, source in planned.items() if name.parts[0] == HANDLERS}
    with tempfile.TemporaryDirectory(prefix="marsmith-") as directory:
        check(asking({**handlers, **beside, PurePosixPath(SERVING): settings.to_json()}, Path(directory)))
    # A network that cannot read what its own preprocessing makes is told from one that cannot be exported.
    next(iter(reference.cases()))
    progress(_exporting(recipe, checkpoint))
    network = write_network(reference, scratch, progress)
    packed, accuracy = in_precision(recipe, reference, network, scratch, progress)
    config = {key: value for key, value in checkpoint.config.items() if key != "_name_or_path"}
    members: dict[PurePosixPath, Source] = {
        **{MODEL / file: packed / file for file in network.files},
        MODEL / "config.json": dump_json(config),
        **{MODEL / name: content for name, content in reference.preprocessing().items()},
    }
    # A network that takes one text at a time has changed the settings since.
    settings = serving(recipe, recipe.precision, checkpoint.labels, reference.settings)
    return Converted(reference, settings, network, members, accuracy)


def _text(recipe: Recipe, checkpoint: Checkpoint) -> TextReference:
    reference = TextReference(checkpoint, recipe.normalise, recipe.long_text)
    if recipe.explain and reference.settings.mask_token is None:
        raise CheckpointError(
            "The tokenizer has neither a mask token nor one for unknown words, so nothing can stand for what an "
            "explanation leaves out: build with explain = false."
        )
    return reference


def _exporting(recipe: Recipe, checkpoint: Checkpoint) -> str:
    family = checkpoint.config.get("model_type")
    if recipe.kind.section == "text" and family not in TEXT_LAYOUTS:
        return f"exporting the network (no test covers {family} models: this one is kept only if the export agrees)"
    return "exporting the network"
