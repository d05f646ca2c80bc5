"""What the recording of a network keeps of it."""

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from marsmith.network.choose import TOLERANCE
from marsmith.network.program import PROGRAM, WEIGHTS, player, record

SIDE = 6
X = np.random.default_rng(3).standard_normal((2, SIDE)).astype(np.float32)


class Views(nn.Module):
    """A matrix, and another name for what is made of it."""

    v: Tensor

    def __init__(self, other: str) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(3)))
        weight = self.w.detach()
        self.register_buffer("v", weight.t() if other == "transposed" else weight.view(SIDE, SIDE))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.w + torch.relu(x @ self.v)


def recorded(directory: Path, other: str) -> int:
    """How many weights the recording has; it answers as the module does."""
    module = Views(other)
    record(module, {"x": X}, directory)
    with torch.no_grad():
        expected = module(torch.from_numpy(X)).numpy()
    assert abs(player(directory / PROGRAM)({"x": X}) - expected).max() < TOLERANCE
    return len(json.loads((directory / PROGRAM).read_text(encoding="utf-8"))["weights"])


def test_a_square_matrix_and_its_transpose_are_two_weights(tmp_path: Path) -> None:
    """They have their address, shape and type in common."""
    assert recorded(tmp_path, "transposed") == 2


def test_one_tensor_by_two_names_is_written_once(tmp_path: Path) -> None:
    assert recorded(tmp_path, "same") == 1
    assert (tmp_path / WEIGHTS).stat().st_size == SIDE * SIDE * np.dtype(np.float32).itemsize
