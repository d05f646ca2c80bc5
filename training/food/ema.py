"""An exponential moving average of a network's weights: what is scored and stored when it is on."""

from __future__ import annotations

import copy

import torch
from torch import nn


class Average:
    """The average of `model`'s weights over about 1 / (1 - decay) steps; buffers are copied.

    The first steps decay faster, (1 + step) / (10 + step), so that the start is soon forgotten (as TensorFlow's does).
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Take in the weights after step `step`, counted from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for mine, theirs in zip(self.model.parameters(), model.parameters(), strict=True):
            mine.lerp_(theirs, 1 - decay)
        for buffer, newest in zip(self.model.buffers(), model.buffers(), strict=True):
            buffer.copy_(newest)
