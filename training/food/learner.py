"""The student as it learns: its network, and the projection that a feature loss needs beside it."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn
from transformers import PreTrainedModel

from training.errors import TrainingError


class Answers(NamedTuple):
    """Logits [B, L] of the head that labels teach, those of the head that the teacher teaches, and features.

    A network without DeiT's second head has its only head in both. `hidden` is [B, T, C], of the teacher's width, or
    None when no feature loss is asked for.
    """

    labelled: Tensor
    taught: Tensor
    hidden: Tensor | None


class Learner(nn.Module):
    """Runs a student; `teacher_width` is the teacher's hidden width C when its features are to be learnt, else None."""

    def __init__(self, model: PreTrainedModel, teacher_width: int | None = None) -> None:
        super().__init__()
        self.model = model
        self.projection: nn.Module | None = None
        if teacher_width is not None:
            self.projection = projection(width_of(model), teacher_width)

    def forward(self, pixels: Tensor) -> Answers:
        """Answer normalised pixels [B, 3, S, S]."""
        out = self.model(pixels, **({"output_hidden_states": True} if self.projection else {}))
        hidden = self.projection(tokens(out.hidden_states[-1])) if self.projection else None
        if hasattr(out, "distillation_logits"):
            return Answers(out.cls_logits, out.distillation_logits, hidden)
        return Answers(out.logits, out.logits, hidden)


def tokens(hidden: Tensor) -> Tensor:
    """Return features with their width last: [B, T, C], or [B, n, n, C] of feature maps [B, C, n, n]."""
    return hidden.permute(0, 2, 3, 1) if hidden.dim() == 4 else hidden


def width_of(model: PreTrainedModel) -> int:
    """Return the width C of the last hidden state. Raises TrainingError when the config does not tell it."""
    width = getattr(model.config, "hidden_size", None) or (getattr(model.config, "hidden_sizes", None) or [None])[-1]
    if width is None:
        raise TrainingError(f"{type(model).__name__} does not tell its width: leave out --feature-weight.")
    return int(width)


def projection(width: int, teacher_width: int) -> nn.Linear:
    """Return a linear map that starts as the identity where the widths are equal."""
    linear = nn.Linear(width, teacher_width)
    if width == teacher_width:
        nn.init.eye_(linear.weight)
        nn.init.zeros_(linear.bias)
    return linear
