"""Random views of photos, each a pure function of (seed, epoch, photo): whoever makes it, and when, makes the same.

So a run that is resumed, or shared out to another number of processes, goes on with the views it would have seen, and
a teacher's answers can be kept for views that come back. Every draw comes from a counter-based generator (Philox,
Salmon et al., SC 2011) keyed by the three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from training.food.randaugment import rand_augment

# Training crops cover this share of the photo, with this range of width : height.
CROP_AREA = (0.35, 1.0)
CROP_RATIO = (3 / 4, 4 / 3)
# Brightness, contrast and saturation are multiplied by 1 - JITTER ... 1 + JITTER.
JITTER = 0.3
# Luma of ITU-R BT.601, as Pillow's "L" mode.
LUMA = (0.299, 0.587, 0.114)
# Keys of the draws that are not a photo's view.
ORDER, MIX = 1 << 40, 2 << 40


@dataclass(frozen=True, slots=True)
class Augmentation:
    """How views are made. `operations` and `magnitude` (of 30) are RandAugment's N and M; N = 0 leaves it out.

    `mixup` and `cutmix` are the alphas of their Beta distributions, 0 for none; with both, every other pair gets the
    one or the other.
    """

    seed: int
    size: int
    jitter: float = JITTER
    operations: int = 0
    magnitude: int = 9
    mixup: float = 0.0
    cutmix: float = 0.0


def dice(seed: int, epoch: int, item: int) -> np.random.Generator:
    """Return the generator of one item of one epoch."""
    return np.random.Generator(np.random.Philox(key=[seed, 0], counter=[0, 0, epoch, item]))


def order(seed: int, epoch: int, count: int) -> Tensor:
    """Return the order int64 [count] in which an epoch sees the photos."""
    return torch.from_numpy(dice(seed, epoch, ORDER).permutation(count))


def random_crop(photo: Tensor, size: int, draws: np.random.Generator) -> Tensor:
    """Cut a random box out of one photo uint8 [3, S, S], resize it to [3, size, size], mirror every other."""
    side = photo.shape[-1]
    area = draws.uniform(*CROP_AREA) * side * side
    ratio = math.exp(draws.uniform(math.log(CROP_RATIO[0]), math.log(CROP_RATIO[1])))
    width = min(side, round((area * ratio) ** 0.5))
    height = min(side, round((area / ratio) ** 0.5))
    top, left = int(draws.uniform(0, side - height + 1)), int(draws.uniform(0, side - width + 1))
    box = photo[None, :, top : top + height, left : left + width]
    # Not kornia's warp: it takes no account of pixels that fall between samples when a crop shrinks.
    crop = functional.interpolate(box.float(), (size, size), mode="bicubic", antialias=True)[0].clamp_(0, 255)
    return crop.flip(-1) if draws.uniform() < 0.5 else crop


def jitter(pixels: Tensor, factors: Tensor) -> Tensor:
    """Scale brightness, contrast and saturation of pixels [B, 3, H, W] in 0..1 by factors [B, 3]."""
    brightness, contrast, saturation = factors.view(-1, 3, 1, 1, 1).unbind(1)
    luma = torch.tensor(LUMA).view(3, 1, 1)
    pixels = pixels * brightness
    grey = (pixels * luma).sum(dim=1, keepdim=True)
    pixels = grey + saturation * (pixels - grey)
    mean = grey.mean(dim=(2, 3), keepdim=True)
    return torch.clamp(mean + contrast * (pixels - mean), 0, 1)


def views(photos: Tensor, items: Sequence[int], epoch: int, how: Augmentation) -> Tensor:
    """Return the views of an epoch, float [B, 3, size, size] in 0..1, of photos uint8 [B, 3, S, S] with ids `items`."""
    draws = [dice(how.seed, epoch, item) for item in items]
    crops = [random_crop(photo, how.size, source) for photo, source in zip(photos, draws, strict=True)]
    pixels = torch.stack(crops) / 255
    if how.jitter:
        factors = np.stack([source.uniform(1 - how.jitter, 1 + how.jitter, 3) for source in draws])
        pixels = jitter(pixels, torch.from_numpy(factors).float())
    if how.operations:
        pixels = rand_augment(pixels, draws, how.operations, how.magnitude)
    return pixels


@dataclass(frozen=True, slots=True)
class Mixture:
    """Which share of each view [B] comes from itself; the rest comes from the neighbour `partner` int64 [B]."""

    share: Tensor
    partner: Tensor


def mix(pixels: Tensor, first: int, epoch: int, how: Augmentation) -> tuple[Tensor, Mixture | None]:
    """Mix neighbours in pairs: mixup (Zhang et al. 2018) or cutmix (Yun et al. 2019) of views [B, 3, S, S].

    `first` is the place of the first view in the epoch's order. It and B are even, so that a pair is never parted,
    however many processes share the work. Both of a pair get the same share.
    """
    if not how.mixup and not how.cutmix:
        return pixels, None
    count = len(pixels)
    partner = torch.arange(count) ^ 1
    mixed, share = pixels.clone(), torch.ones(count)
    for pair in range(0, count, 2):
        draws = dice(how.seed, epoch, MIX + first + pair)
        rows, others = slice(pair, pair + 2), partner[pair : pair + 2]
        if how.cutmix and (not how.mixup or draws.uniform() < 0.5):
            kept = draws.beta(how.cutmix, how.cutmix)
            side = pixels.shape[-1]
            cut = round(side * (1 - kept) ** 0.5)
            top, left = draws.integers(0, side - cut + 1, 2)
            mixed[rows, :, top : top + cut, left : left + cut] = pixels[others, :, top : top + cut, left : left + cut]
            share[rows] = 1 - (cut / side) ** 2
        else:
            kept = float(draws.beta(how.mixup, how.mixup))
            mixed[rows] = kept * pixels[rows] + (1 - kept) * pixels[others]
            share[rows] = kept
    return mixed, Mixture(share, partner)
