"""Find a recipe's checkpoint and prove that it is whole and fits the task, before anything heavy is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marsmith.errors import CheckpointError
from marsmith.paths import is_dir
from marsmith.recipe import Recipe
from marsmith.serving import Layout

WEIGHTS = "model.safetensors"
WEIGHTS_INDEX = "model.safetensors.index.json"
PICKLED_WEIGHTS = "pytorch_model.bin"
HUB_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
HUB_ID = re.compile(r"^[\w.-]+/[\w.-]+\Z")
# The families that tests prove, with the layout of their graphs: packed where the encoder takes position ids and a
# mask between any two tokens (packed.py). MPNet and ModernBERT count distances through the whole sequence.
TEXT_LAYOUTS: dict[str, Layout] = {
    "albert": "packed",
    "bert": "packed",
    "camembert": "packed",
    "deberta-v2": "packed",
    "distilbert": "packed",
    "electra": "packed",
    "modernbert": "padded",
    "mpnet": "padded",
    "roberta": "packed",
    "xlm-roberta": "packed",
}
PLACEHOLDER_LABEL = re.compile(r"^LABEL_\d+$")
SAFETENSORS_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint on this disk. `source` is the hub id with its commit, or "local"."""

    path: Path
    source: str
    config: dict[str, Any]
    labels: list[str]


def resolve(recipe: Recipe) -> Checkpoint:
    """The recipe's checkpoint, downloaded when it is a hub id. Raises CheckpointError."""
    named = recipe.checkpoint or "."
    local = recipe.directory / named
    if is_dir(local):
        path, source = local, "local"
    elif HUB_ID.match(named) and not named.startswith("."):
        path = _download(named, recipe)
        source = f"{named}@{path.name}"
    else:
        raise CheckpointError(
            f"There is no checkpoint directory {local}. "
            "Give a directory relative to the recipe, or a hub id (owner/name)."
        )
    config = _read_json(path / "config.json")
    _check_architecture(config, recipe)
    if recipe.handler is None:
        _check_problem(config)
    elif recipe.precision == "int8":
        _check_comparable(config)
    if recipe.kind.section == "text":
        _check_text_model(config)
    _check_files(path, recipe)
    return Checkpoint(path, source, config, recipe.labels or _labels(config, placeholders=recipe.handler is not None))


def _download(hub_id: str, recipe: Recipe) -> Path:
    from huggingface_hub import snapshot_download

    patterns = [*HUB_FILES, PICKLED_WEIGHTS] if recipe.allow_pickle else HUB_FILES
    try:
        return Path(snapshot_download(hub_id, revision=recipe.revision, allow_patterns=patterns))
    except Exception as error:  # the hub client raises its own, requests' and OS errors
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CheckpointError(
            f"The checkpoint {hub_id} cannot be had from the Hugging Face hub: {reason}. "
            "Check the id, the revision and the network, or download it and name its directory."
        ) from None


def _read_json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{file} is missing: this is not a whole Hugging Face checkpoint.") from None
    except (OSError, ValueError):
        raise CheckpointError(f"{file} is not readable JSON. Download the checkpoint again.") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} holds no JSON object. Download the checkpoint again.")
    return value


def _check_architecture(config: dict[str, Any], recipe: Recipe) -> None:
    endings = recipe.kind.architectures
    architecture = str((config.get("architectures") or ["no architecture"])[0])
    if not architecture.endswith(endings):
        raise CheckpointError(
            f"The checkpoint is a {architecture}, the task {recipe.task} needs a ...{endings[0]}: "
            "choose another checkpoint, or fine-tune this one first."
        )


def text_layout(config: Mapping[str, Any]) -> Layout:
    """The layout of a text checkpoint's graph. A family that no test proves is padded, which asks least of it."""
    # The heads of encoder-decoders look for each text's last </s>, and a text may spell one out: of several texts, one
    # would get another's answer.
    if config.get("is_encoder_decoder"):
        return "single"
    # A convolution would reach across the borders of packed texts.
    if config.get("conv_kernel_size", 0) > 0:
        return "padded"
    return TEXT_LAYOUTS.get(str(config.get("model_type")), "padded")


def _check_text_model(config: dict[str, Any]) -> None:
    if not isinstance(config.get("pad_token_id", 0), int):
        raise CheckpointError("The checkpoint's config.json has no pad_token_id: set it to the tokenizer's.")


def _check_problem(config: dict[str, Any]) -> None:
    """An answer is one of several labels, with probabilities that sum to one, unless a handler of one's own decides.

    Raises CheckpointError for others.
    """
    remedy = (
        "choose another checkpoint, fine-tune this one for single_label_classification, or give the recipe a handler "
        "of your own."
    )
    if config.get("problem_type") == "regression" or len(config.get("id2label") or {}) == 1:
        raise CheckpointError(f"The checkpoint answers with a number (regression), not with a label: {remedy}")
    if config.get("problem_type") == "multi_label_classification":
        raise CheckpointError(
            "The checkpoint gives every label a probability of its own (problem_type multi_label_classification), "
            f"where an answer here is one label of several: {remedy}"
        )


def _check_comparable(config: dict[str, Any]) -> None:
    """Raise CheckpointError where the accuracy of int8 could not be told: a label of several is what it counts."""
    try:
        _check_problem(config)
    except CheckpointError:
        raise CheckpointError(
            "The checkpoint's answer is not one label of several, so how far int8 is from it cannot be told: set "
            'precision = "fp32" or "bf16".'
        ) from None


def _check_files(path: Path, recipe: Recipe) -> None:
    wanted = recipe.kind.preprocessing
    if not any((path / name).is_file() for name in wanted):
        raise CheckpointError(f"{path} has no {' or '.join(wanted)}. Save it with the model and build again.")
    # In the order in which transformers looks for them.
    if (path / WEIGHTS).is_file():
        check_safetensors(path / WEIGHTS)
    elif (path / WEIGHTS_INDEX).is_file():
        weight_map = _read_json(path / WEIGHTS_INDEX).get("weight_map", {})
        for shard in sorted(set(weight_map.values())):
            check_safetensors(path / shard)
    elif not (path / PICKLED_WEIGHTS).is_file():
        raise CheckpointError(f"{path} has no {WEIGHTS}: the checkpoint is not whole. Download or save it again.")
    elif not recipe.allow_pickle:
        raise CheckpointError(
            f"{path} has its weights as a pickle only, which can run code. "
            "Save them with save_pretrained as safetensors, "
            "or set allow_pickle = true to read them with torch's restricted unpickler."
        )


def check_safetensors(file: Path) -> None:
    """Prove that a safetensors file is as long as its header says. Raises CheckpointError."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(SAFETENSORS_LENGTH_BYTES), "little")
            header = json.loads(stream.read(length)) if length < size else None
        if header is None:
            raise ValueError("header longer than the file")
        end = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    except FileNotFoundError:
        raise CheckpointError(f"{file} is missing: the checkpoint is not whole. Download it again.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(f"{file} is not a safetensors file, or only its beginning. Download it again.") from None
    if SAFETENSORS_LENGTH_BYTES + length + end != size:
        raise CheckpointError(
            f"{file} has {size} bytes where its header promises {SAFETENSORS_LENGTH_BYTES + length + end}: "
            "the download was cut off. Download it again."
        )


def _labels(config: dict[str, Any], *, placeholders: bool) -> list[str]:
    """The labels in the order of the logits. Raises CheckpointError for missing and doubled labels, and placeholders.

    A handler of one's own takes `placeholders`: the logit of a regression has no name.
    """
    id2label = config.get("id2label") or {}
    remedy = 'Name them in the recipe: labels = ["…", …], in the order of the logits.'
    try:
        labels = [str(id2label[key]) for key in sorted(id2label, key=int)]
        dense = sorted(int(key) for key in id2label) == list(range(len(labels)))
    except (ValueError, TypeError):
        labels, dense = [], False
    if not labels or not dense:
        raise CheckpointError(f"The checkpoint's config.json has no complete id2label. {remedy}")
    if not placeholders and any(PLACEHOLDER_LABEL.match(label) for label in labels):
        raise CheckpointError(f"The checkpoint's labels are placeholders ({labels[0]}, …). {remedy}")
    if len(set(labels)) != len(labels):
        raise CheckpointError(f"The checkpoint has two labels of one name. {remedy}")
    return labels
