"""What a student pays for: distance from its teacher's answers, from the labels, from the teacher's features."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from training.food.augment import Mixture
from training.food.sources import UNLABELLED


def soft_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """KL divergence of logits [B, L] from the teacher's, both softened by `temperature`; the mean over B.

    Scaled by the square of the temperature to keep the gradients' size (Hinton et al. 2015).
    """
    divergence = functional.kl_div(
        functional.log_softmax(student / temperature, dim=-1),
        functional.log_softmax(teacher / temperature, dim=-1),
        reduction="batchmean",
        log_target=True,
    )
    return temperature**2 * divergence


def hard_loss(logits: Tensor, labels: Tensor, mixture: Mixture | None = None, smoothing: float = 0.0) -> Tensor:
    """Cross entropy of logits [B, L] and labels [B], of mixed views by the shares of both; UNLABELLED costs nothing."""
    each = functional.cross_entropy(
        logits, labels, ignore_index=UNLABELLED, label_smoothing=smoothing, reduction="none"
    )
    if mixture is not None:
        other = functional.cross_entropy(
            logits, labels[mixture.partner], ignore_index=UNLABELLED, label_smoothing=smoothing, reduction="none"
        )
        each = mixture.share * each + (1 - mixture.share) * other
    return each.mean()


def feature_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean squared distance of a student's projected tokens from its teacher's [B, T, C], normalised to variance 1.

    Of the class token and the patches, which weigh alike.
    """
    (cls, grid), (wanted_cls, wanted) = paired(student, teacher)
    return functional.mse_loss(grid, wanted) + functional.mse_loss(cls, wanted_cls)


def paired(student: Tensor, teacher: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return class tokens [B, C] and patches [B, C, n, n] of both, of a student's tokens and its teacher's [B, T, C].

    A student with another grid of patches is interpolated to the teacher's; the teacher's features are whitened, so
    that a few large channels do not drown the rest (Wei et al. 2022).
    """
    target = functional.layer_norm(teacher, teacher.shape[-1:])
    (cls, grid), wanted = split_tokens(student), split_tokens(target)
    if grid.shape[-1] != wanted[1].shape[-1]:
        grid = functional.interpolate(grid, wanted[1].shape[-2:], mode="bilinear", align_corners=False)
    return (cls, grid), wanted


def split_tokens(hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Split [B, T, C] into the class token [B, C] and the patches [B, C, n, n].

    Feature maps [B, n, n, C] have their mean as the class token.
    Other special tokens, as DeiT's, stand between the two and are left out.
    """
    if hidden.dim() == 4:
        return hidden.mean(dim=(1, 2)), hidden.permute(0, 3, 1, 2)
    side = int((hidden.shape[1] - 1) ** 0.5)
    patches = hidden[:, hidden.shape[1] - side * side :]
    return hidden[:, 0], patches.transpose(1, 2).reshape(len(hidden), -1, side, side)


def mean_of(losses: list[tuple[float, Tensor]]) -> Tensor:
    """Add up losses by their weights."""
    return torch.stack([weight * loss for weight, loss in losses]).sum()
