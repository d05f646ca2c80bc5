"""Find a recipe's checkpoint and prove that it is whole and fits the task, before anything heavy is loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marsmith.errors import CheckpointError, first_line
from marsmith.ground.files import is_dir
from marsmith.ground.placeholders import what_stands_at
from marsmith.ground.serving import Layout
from marsmith.ground.untrusted import printable
from marsmith.recipe.foreign import refuse_foreign
from marsmith.recipe.json_file import entries, read_object
from marsmith.recipe.recipe import Recipe
from marsmith.recipe.weights import PICKLED_WEIGHTS, check_weights

CONFIG = "config.json"
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
# What is read of config.json here, and what it must be; null is as if it were not there.
CONFIG_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "architectures": (list, "a list of class names"),
    "conv_kernel_size": (int, "a whole number"),
    "id2label": (dict, "an object of labels by number"),
    "is_encoder_decoder": (bool, "true or false"),
    "model_type": (str, "a string"),
    "problem_type": (str, "a string"),
}
# The largest models have some hundred layers, and ImageNet-21k some 20,000 labels. transformers makes objects of all.
MAX_LAYERS, MAX_LABELS = 1_000, 1_000_000
LAYERS = re.compile(r"(num_\w*|n_|n|encoder_|decoder_)(layers?|blocks?)$|^depths$")
# What a tokenizer is read from, whatever the task's handler needs.
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "*.model")


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
    config = read_object(path / CONFIG)
    refuse_foreign(path)
    _check_values(config)
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
        raise CheckpointError(
            f"The checkpoint {hub_id} cannot be had from the Hugging Face hub: {first_line(error)}. "
            "Check the id, the revision and the network, or download it and name its directory."
        ) from None


def _check_values(config: dict[str, Any]) -> None:
    """Raise CheckpointError for values that are not of the type they must be, and counts that no network has."""
    for key, (kind, must_be) in CONFIG_TYPES.items():
        value = config.get(key)
        if value is not None and not isinstance(value, kind):
            raise _invalid(key, value, f"{key} must be {must_be}")
    for name in config.get("architectures") or []:
        if not isinstance(name, str):
            raise _invalid("architectures", name, "architectures must be a list of class names")
    for key, value, _ in entries(config):
        limit = MAX_LABELS if key == "num_labels" else MAX_LAYERS if LAYERS.search(key) else None
        if limit and isinstance(value, int) and value > limit:
            raise _invalid(key, value, f"a network has {limit:,} at most")


def _invalid(key: str, value: object, must_be: str) -> CheckpointError:
    return CheckpointError(
        f"The checkpoint's {CONFIG} is invalid: {key} is {printable(repr(value))}, but {must_be}. "
        "Save or download it again."
    )


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
    if (config.get("conv_kernel_size") or 0) > 0:
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
    for pattern in VOCABULARIES:
        for file in sorted(path.glob(pattern)):
            if kind := what_stands_at(file):
                raise CheckpointError(f"{file} is {kind}.")
    check_weights(path, allow_pickle=recipe.allow_pickle)


def _labels(config: dict[str, Any], *, placeholders: bool) -> list[str]:
    """The labels in the order of the logits. Raises CheckpointError for missing and doubled labels, and placeholders.

    A handler of one's own takes `placeholders`: the logit of a regression has no name.
    """
    id2label = config.get("id2label") or {}
    for label in id2label.values():
        if not isinstance(label, (str, int, float)):
            raise _invalid("id2label", label, "each label must be a string")
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
