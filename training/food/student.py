"""Where a student comes from: a checkpoint, a config, or the teacher itself, cut down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForImageClassification, PreTrainedModel

from training.errors import TrainingError
from training.food.networks import Classifier, layers_of, renew_heads, set_labels
from training.food.photos import Photos, spread
from training.food.preprocessing import Preprocessing, whole

# Encoder layers of width C, as published. All have patches of 16 x 16 and a head for each 64 of the width.
SHAPES = {
    "deit-tiny": (192, 12),  # Touvron et al., ICML 2021
    "deit-small": (384, 12),
    "vit-tiny": (192, 12),  # Steiner et al., TMLR 2022
    "vit-small": (384, 12),
    "vit-base": (768, 12),  # Dosovitskiy et al., ICLR 2021
}
RANKED_PHOTOS = 256  # enough that the order of neurons settles
RANK_BATCH = 64


def from_shape(name: str, teacher: Classifier) -> Classifier:
    """Return a new network of random weights: one of SHAPES, a timm architecture, or a folder or file of a config.

    Pictures are the teacher's. Raises TrainingError for a name that is none of these.
    """
    labels, see = teacher.labels, teacher.see
    if name in SHAPES:
        width, layers = SHAPES[name]
        family = name.partition("-")[0]
        patch = 16 if see.size % 16 == 0 else 14
        if see.size % patch:
            raise TrainingError(f"{see.size} pixels are no multiple of a patch of 16 or 14: choose another student.")
        config = AutoConfig.for_model(
            family,
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=layers,
            num_attention_heads=width // 64,
            image_size=see.size,
            patch_size=patch,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        if family == "deit":
            config.architectures = ["DeiTForImageClassificationWithTeacher"]
    elif Path(name).exists():
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
        see = Preprocessing(config.image_size, see.mean, see.std)
    else:
        config = _timm_config(name)
        see = Preprocessing(see.size, see.mean, see.std)
    config.num_labels = len(labels)
    model = build(config)
    set_labels(model, labels)
    return Classifier(model, labels, see)


def build(config: AutoConfig) -> PreTrainedModel:
    """Return a network of random weights: of the config's first architecture, where its family has several."""
    model: PreTrainedModel = AutoModelForImageClassification.from_config(config, trust_remote_code=False)
    return model.eval()


def _timm_config(name: str) -> AutoConfig:
    try:
        import timm
    except ImportError:
        raise TrainingError(f"{name} is none of {', '.join(SHAPES)}; for timm's networks, pip install timm.") from None
    if not timm.is_model(name):
        raise TrainingError(f"{name} is none of {', '.join(SHAPES)}, no folder, and no network of timm's.")
    return AutoConfig.for_model("timm_wrapper", architecture=name)


def from_checkpoint(checkpoint: str, teacher: Classifier, *, new_head: bool) -> Classifier:
    """Read a student whose labels are the teacher's, or give it a new head. Raises TrainingError when they differ."""
    student = Classifier.read(checkpoint)
    if student.labels == teacher.labels:
        return student
    if not new_head:
        raise TrainingError(
            f"The student {checkpoint} and its teacher answer different labels ({len(student.labels)} and "
            f"{len(teacher.labels)}): pass --new-head to give the student a head for the teacher's."
        )
    renew_heads(student.model, teacher.labels)
    return Classifier(student.model, teacher.labels, student.see)


def _vit_layers(model: PreTrainedModel) -> Any:
    """Return the stack of encoder layers, each with an MLP of fc1 and fc2. Raises TrainingError for other networks."""
    layers = layers_of(model)
    if layers is None or not hasattr(layers[0], "mlp") or not hasattr(layers[0].mlp, "fc2"):
        raise TrainingError(f"A {type(model).__name__} cannot be cut: name a student with --student.")
    return layers


@torch.inference_mode()
def importance(teacher: Classifier, photos: Photos) -> list[Tensor]:
    """Return how much each MLP neuron [W] of each layer adds to the layer's output, on up to RANKED_PHOTOS photos.

    It is the mean over tokens of |activation|, times the norm of the neuron's output weights: the mean length of what
    it adds (magnitude pruning of activations, as Wanda scores weights: Sun et al., ICLR 2024).
    """
    layers = _vit_layers(teacher.model)
    sums = [torch.zeros(layer.mlp.fc2.in_features) for layer in layers]

    def add(inputs: tuple[Tensor, ...], index: int) -> None:
        sums[index] += inputs[0].abs().flatten(0, -2).sum(0)

    hooks = [
        layer.mlp.fc2.register_forward_pre_hook(lambda _, inputs, index=index: add(inputs, index))
        for index, layer in enumerate(layers)
    ]
    for items in torch.split(spread(len(photos), RANKED_PHOTOS), RANK_BATCH):
        teacher.model(teacher.see(whole(photos.pixels(items))))
    for hook in hooks:
        hook.remove()
    return [total * layer.mlp.fc2.weight.norm(dim=0) for total, layer in zip(sums, layers, strict=True)]


@torch.no_grad()
def cut(teacher: Classifier, keep: Sequence[int], neurons: Sequence[Tensor] | None = None) -> Classifier:
    """Return a copy of the teacher with only the layers `keep`, in that order.

    `neurons` are the MLP neurons int64 [W] that each kept layer keeps; all layers keep equally many.
    """
    source = _vit_layers(teacher.model)
    config = type(teacher.model.config).from_dict(teacher.model.config.to_dict())
    config.num_hidden_layers = len(keep)
    if neurons is not None:
        config.intermediate_size = len(neurons[0])
    model = type(teacher.model)(config).eval()
    path = next(name for name, part in teacher.model.named_modules() if part is source)
    layers = model.get_submodule(path)
    rest = {name: value for name, value in teacher.model.state_dict().items() if not name.startswith(f"{path}.")}
    model.load_state_dict(rest, strict=False)
    for place, index in enumerate(keep):
        state = source[index].state_dict()
        if neurons is not None:
            chosen = neurons[place]
            state["mlp.fc1.weight"], state["mlp.fc1.bias"] = (state[f"mlp.fc1.{n}"][chosen] for n in ("weight", "bias"))
            state["mlp.fc2.weight"] = state["mlp.fc2.weight"][:, chosen]
        layers[place].load_state_dict(state)
    return Classifier(model, teacher.labels, teacher.see)


def from_teacher(teacher: Classifier, photos: Photos, layers: int, width: int | None) -> Classifier:
    """Return the teacher's first `layers` layers, their MLPs narrowed to the `width` neurons that matter most.

    The last layer norm starts anew, as the teacher's suits its last layer. Raises TrainingError for more than it has.
    """
    source = _vit_layers(teacher.model)
    if not 0 < layers <= len(source):
        raise TrainingError(f"The teacher has {len(source)} layers: --layers must be 1 to {len(source)}.")
    has = source[0].mlp.fc2.in_features
    if width is not None and not 0 < width <= has:
        raise TrainingError(f"The teacher's MLPs are {has} wide: --mlp-width must be 1 to {has}.")
    neurons = None
    if width is not None and width < has:
        best = [score.topk(width).indices.sort().values for score in importance(teacher, photos)]
        neurons = best[:layers]
    student = cut(teacher, range(layers), neurons)
    if layers < len(source):
        _reset_norm(student.model)
    return student


def _reset_norm(model: PreTrainedModel) -> None:
    base = getattr(model, model.base_model_prefix)
    norm = getattr(base, "layernorm", None)
    if isinstance(norm, nn.LayerNorm):
        norm.reset_parameters()
