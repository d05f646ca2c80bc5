"""RandAugment (Cubuk et al., NeurIPS 2020) out of kornia's operations, with a draw of its own for each photo.

kornia's own class draws one policy a batch from torch's global generator; here a photo's policy must depend on the
photo and the epoch alone. Photos that drew the same operation go through it together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import kornia.enhance as enhance
import kornia.geometry.transform as transform
import numpy as np
import torch
from torch import Tensor

MAX_MAGNITUDE = 30
MAX_DEGREES, MAX_SHEAR, MAX_SHIFT, MAX_CHANGE = 30.0, 0.3, 0.45, 0.9
GREY = (0.5, 0.5, 0.5)  # what a warp finds outside the photo

# Takes views [B, 3, H, W] in 0..1 and signed strengths [B] in -1..1.
Operation = Callable[[Tensor, Tensor], Tensor]


def _warp(pixels: Tensor, matrix: Tensor) -> Tensor:
    """Warp by linear maps [B, 2, 2] about the centre and shifts [B, 2] in pixels, given as [B, 2, 3]."""
    centre = torch.tensor([(pixels.shape[-1] - 1) / 2, (pixels.shape[-2] - 1) / 2])
    linear = matrix[:, :, :2]
    shift = matrix[:, :, 2] + centre - linear @ centre
    affine = torch.cat([linear, shift[:, :, None]], dim=2)
    warped: Tensor = transform.warp_affine(
        pixels, affine, pixels.shape[-2:], padding_mode="fill", fill_value=torch.tensor(GREY), align_corners=True
    )
    return warped


def _matrix(strength: Tensor, **entries: Tensor) -> Tensor:
    """Return the identity [B, 2, 3] with `entries` ("xx", "xy", "x" ...) put in."""
    matrix = torch.eye(2, 3).repeat(len(strength), 1, 1)
    places = {"xx": (0, 0), "xy": (0, 1), "x": (0, 2), "yx": (1, 0), "yy": (1, 1), "y": (1, 2)}
    for name, values in entries.items():
        matrix[(slice(None), *places[name])] = values
    return matrix


def _rotate(pixels: Tensor, strength: Tensor) -> Tensor:
    angle = torch.deg2rad(MAX_DEGREES * strength)
    return _warp(pixels, _matrix(strength, xx=angle.cos(), xy=-angle.sin(), yx=angle.sin(), yy=angle.cos()))


OPERATIONS: tuple[Operation, ...] = (
    lambda pixels, _: pixels,
    lambda pixels, _: enhance.normalize_min_max(pixels),
    lambda pixels, _: enhance.equalize(pixels),
    lambda pixels, strength: enhance.adjust_brightness_accumulative(pixels, 1 + MAX_CHANGE * strength),
    lambda pixels, strength: enhance.adjust_contrast_with_mean_subtraction(pixels, 1 + MAX_CHANGE * strength),
    lambda pixels, strength: enhance.adjust_saturation_with_gray_subtraction(pixels, 1 + MAX_CHANGE * strength),
    lambda pixels, strength: enhance.sharpness(pixels, strength.abs()),
    lambda pixels, strength: enhance.solarize(pixels, 1 - strength.abs()),
    lambda pixels, strength: enhance.posterize(pixels, (8 - 4 * strength.abs()).round().int()),
    _rotate,
    lambda pixels, strength: _warp(pixels, _matrix(strength, xy=MAX_SHEAR * strength)),
    lambda pixels, strength: _warp(pixels, _matrix(strength, yx=MAX_SHEAR * strength)),
    lambda pixels, strength: _warp(pixels, _matrix(strength, x=MAX_SHIFT * strength * pixels.shape[-1])),
    lambda pixels, strength: _warp(pixels, _matrix(strength, y=MAX_SHIFT * strength * pixels.shape[-2])),
)


def rand_augment(pixels: Tensor, draws: Sequence[np.random.Generator], operations: int, magnitude: int) -> Tensor:
    """Apply so many random operations of the given magnitude (of MAX_MAGNITUDE) to each view [B, 3, H, W] in 0..1."""
    strength = magnitude / MAX_MAGNITUDE
    for _ in range(operations):
        chosen = np.array([source.integers(len(OPERATIONS)) for source in draws])
        signs = torch.tensor([1.0 if source.uniform() < 0.5 else -1.0 for source in draws])
        pixels = pixels.clone()
        for which in np.unique(chosen):
            rows = torch.from_numpy(np.flatnonzero(chosen == which))
            pixels[rows] = OPERATIONS[which](pixels[rows], strength * signs[rows]).clamp(0, 1)
    return pixels
