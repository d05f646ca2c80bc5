"""How fast each parameter learns at each step."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from training.errors import TrainingError
from training.food.networks import layers_of

FOLDED = ("attention.o_proj.", "mlp.fc2.")  # the layers that backbone.to_classifier scales
TYPICAL_RMS = 0.014  # of their weights before


def ramp(step: int, steps: int, warm_up: float) -> float:
    """Share of the peak learning rate: linear over a share `warm_up` of the steps, then half a cosine down to 0."""
    rising = max(1, round(warm_up * steps))
    if step < rising:
        return (step + 1) / rising
    return 0.5 + 0.5 * math.cos(math.pi * (step - rising) / max(1, steps - rising))


def depths(model: PreTrainedModel) -> tuple[dict[str, int], int]:
    """Return the depth of each parameter by name, and the deepest: 0 embeddings, then a layer each, then the rest.

    A network without a stack of equal layers is all of depth 0.
    """
    layers = layers_of(model)
    if layers is None:
        return {name: 0 for name, _ in model.named_parameters()}, 0
    path = next(name for name, part in model.named_modules() if part is layers)
    last = len(layers) + 1
    found = dict[str, int]()
    for name, _ in model.named_parameters():
        if name.startswith(f"{path}."):
            found[name] = 1 + int(name[len(path) + 1 :].partition(".")[0])
        else:
            found[name] = 0 if "embed" in name or "stem" in name else last
    return found, last


def parameter_groups(
    model: PreTrainedModel, lr: float, *, layer_decay: float = 1.0, frozen: int = 0, relative: bool = False
) -> list[dict[str, Any]]:
    """Freeze the first `frozen` layers and the embeddings; return a group for each rate of the rest.

    `lr` is the head's peak rate; each layer learns `layer_decay` times as fast as the one above it (Clark et al.,
    ICLR 2020). `relative` makes the steps of folded layers follow the size of their weights, see `relative_step`.
    Raises TrainingError when there are not so many layers.
    """
    depth, last = depths(model)
    if frozen > max(0, last - 1):
        raise TrainingError(f"The network has {max(0, last - 1)} layers to freeze, not {frozen}: lower --frozen.")
    groups = dict[float, list[nn.Parameter]]()
    for name, parameter in model.named_parameters():
        learns = not frozen or depth[name] > frozen
        parameter.requires_grad_(learns)
        if learns:
            rate = lr * layer_decay ** (last - depth[name]) * (relative_step(name, model) if relative else 1.0)
            groups.setdefault(rate, []).append(parameter)
    return [{"params": parameters, "lr": rate} for rate, parameters in groups.items()]


def relative_step(name: str, model: nn.Module) -> float:
    """Return the factor on the rate of a layer's parameter that makes up for the LayerScale folded into it.

    Adam's steps do not depend on a gradient's size, so a folded layer would learn out of proportion to its weights,
    whose root mean square runs from 0.003 in the first layers to 0.1 in the last: steps follow it, as Adafactor's
    do (Shazeer and Stern 2018).
    """
    if not any(folded in name for folded in FOLDED):
        return 1.0
    weight: torch.Tensor = model.get_parameter(name.rpartition(".")[0] + ".weight").detach()
    return float(weight.square().mean().sqrt()) / TYPICAL_RMS
