"""The student as it learns: its network, and the projection that a feature loss needs beside it."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from training.errors import TrainingError
from training.food.fitting import fit
from training.food.losses import paired


class Answers(NamedTuple):
    """Logits [B, L] of the head that labels teach, those of the head that the teacher teaches, and features.

    A network without DeiT's second head has its only head in both. `hidden` are the matched layers' features
    [B, T, C], of the teacher's width; none when no feature loss is asked for.
    """

    labelled: Tensor
    taught: Tensor
    hidden: list[Tensor]


class Learner(nn.Module):
    """Runs a student; `teacher` is given when its features are to be learnt.

    Each layer learns those of the teacher's same layer where both have as many, of one width throughout; else the last
    learns the last. Each has a projection of its own to the teacher's width (TinyBERT: Jiao et al. 2020).
    """

    def __init__(self, model: PreTrainedModel, teacher: PreTrainedModel | None = None) -> None:
        super().__init__()
        self.model = model
        count = 0 if teacher is None else matched(model, teacher)
        wide = 0 if teacher is None else width_of(teacher)
        self.projections = nn.ModuleList(nn.Linear(width_of(model), wide) for _ in range(count))

    def forward(self, pixels: Tensor) -> Answers:
        """Answer normalised pixels [B, 3, S, S]."""
        out = self.model(pixels, **({"output_hidden_states": True} if self.projections else {}))
        seen = map(whitened, last_states(out, len(self.projections)))
        hidden = [projection(state) for projection, state in zip(self.projections, seen, strict=True)]
        if hasattr(out, "distillation_logits"):
            return Answers(out.cls_logits, out.distillation_logits, hidden)
        return Answers(out.logits, out.logits, hidden)

    @torch.no_grad()
    def fit_projections(self, pixels: Tensor, features: list[Tensor]) -> None:
        """Start the projections as the least squares from what the layers make of pixels to the teacher's `features`.

        So the loss begins with what the student lacks, not with what the projections have to learn.
        """
        out = self.model(pixels, output_hidden_states=True)
        seen = map(whitened, last_states(out, len(self.projections)))
        for projection, state, wanted in zip(self.projections, seen, features, strict=True):
            known, target = (
                torch.cat([cls, grid.permute(0, 2, 3, 1).flatten(0, 2)]) for cls, grid in paired(state, wanted)
            )
            fit(cast(nn.Linear, projection), known, target)


def last_states(out: Any, count: int) -> list[Tensor]:
    """Return the last `count` hidden states of a network's output, as `tokens`."""
    return [tokens(state) for state in out.hidden_states[-count:]] if count else []


def whitened(state: Tensor) -> Tensor:
    """Return features [..., C] of mean 0 and variance 1, as the next layer's norm sees them."""
    return nn.functional.layer_norm(state, state.shape[-1:])


def tokens(hidden: Tensor) -> Tensor:
    """Return features with their width last: [B, T, C], or [B, n, n, C] of feature maps [B, C, n, n]."""
    return hidden.permute(0, 2, 3, 1) if hidden.dim() == 4 else hidden


def matched(model: PreTrainedModel, teacher: PreTrainedModel) -> int:
    """Return how many layers, from the last on, learn the features of the teacher's."""
    mine, theirs = (getattr(each.config, "num_hidden_layers", None) for each in (model, teacher))
    plain = all(isinstance(getattr(each.config, "hidden_size", None), int) for each in (model, teacher))
    return int(mine) if mine and mine == theirs and plain else 1


def width_of(model: PreTrainedModel) -> int:
    """Return the width C of the last hidden state. Raises TrainingError when the config does not tell it."""
    width = getattr(model.config, "hidden_size", None) or (getattr(model.config, "hidden_sizes", None) or [None])[-1]
    if width is None:
        raise TrainingError(f"{type(model).__name__} does not tell its width: leave out --feature-weight.")
    return int(width)
