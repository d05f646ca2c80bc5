"""The GroceryStore photos (Klasson et al., WACV 2019, MIT): read, shrink, augment.

The folder holds `train.txt`, `val.txt` and `test.txt` (path, fine class, coarse class), `classes.csv` and
the photos. Pixels are RGB, channels first, 0 to 255; what a network sees is `normalise`d.
"""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Generator, Tensor
from torch.nn import functional

# ImageNet channel statistics on a 0-1 scale, which the backbone was trained with.
IMAGE_MEAN = (0.485, 0.456, 0.406)
IMAGE_STD = (0.229, 0.224, 0.225)
RESAMPLE = Image.Resampling.BICUBIC

# Training crops cover this share of the photo, with this range of width : height.
CROP_AREA = (0.35, 1.0)
CROP_RATIO = (3 / 4, 4 / 3)
# Brightness, contrast and saturation are multiplied by 1 - JITTER ... 1 + JITTER.
JITTER = 0.3
# Luma of ITU-R BT.601, as Pillow's "L" mode.
LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True, slots=True)
class Photos:
    """A split in memory: `pixels` uint8 [N, 3, S, S], `labels` int64 [N] (coarse class)."""

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


def read_labels(folder: Path) -> list[str]:
    """Return the 43 coarse class names in id order, as people write them ("Sour Cream")."""
    with (folder / "classes.csv").open(newline="", encoding="utf-8") as file:
        names = {int(row["Coarse Class ID (int)"]): row["Coarse Class Name (str)"] for row in csv.DictReader(file)}
    return [names[index].replace("-", " ").replace("_", " ").strip() for index in range(len(names))]


def read_split(folder: Path, split: str) -> list[tuple[Path, int]]:
    """Return (photo, coarse class) for each line of `{split}.txt`."""
    lines = (folder / f"{split}.txt").read_text(encoding="utf-8").splitlines()
    rows = csv.reader(lines, skipinitialspace=True)
    return [(folder / path, int(coarse)) for path, _fine, coarse in rows]


def read_photo(path: Path, size: int) -> Tensor:
    """Return the whole photo squashed to uint8 [3, size, size], bicubic, as ViTImageProcessor does."""
    with Image.open(path) as photo:
        pixels = np.array(photo.convert("RGB").resize((size, size), RESAMPLE))
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def load_photos(folder: Path, split: str, size: int) -> Photos:
    """Read one split, every photo shrunk to `size` pixels square (3 * size * size bytes each)."""
    rows = read_split(folder, split)
    pixels = torch.stack([read_photo(path, size) for path, _ in rows])
    return Photos(pixels, torch.tensor([coarse for _, coarse in rows]))


def normalise(pixels: Tensor) -> Tensor:
    """Turn pixels [B, 3, H, W] into what a network sees: float32, ImageNet's mean and deviation."""
    mean = torch.tensor(IMAGE_MEAN).view(3, 1, 1)
    return (pixels.float() / 255 - mean) / torch.tensor(IMAGE_STD).view(3, 1, 1)


def uniform(low: float, high: float, generator: Generator) -> float:
    """Draw from low ... high."""
    return low + (high - low) * float(torch.rand((), generator=generator))


def random_crop(pixels: Tensor, size: int, generator: Generator) -> Tensor:
    """Cut a random box out of one photo [3, S, S], resize it to float [3, size, size], mirror every other."""
    side = pixels.shape[-1]
    area = uniform(*CROP_AREA, generator) * side * side
    narrow, wide = (math.log(ratio) for ratio in CROP_RATIO)
    ratio = math.exp(uniform(narrow, wide, generator))
    width = min(side, round((area * ratio) ** 0.5))
    height = min(side, round((area / ratio) ** 0.5))
    top = int(uniform(0, side - height + 1, generator))
    left = int(uniform(0, side - width + 1, generator))
    box = pixels[:, top : top + height, left : left + width].float()[None]
    crop = functional.interpolate(box, (size, size), mode="bicubic", antialias=True)[0].clamp(0, 255)
    return crop.flip(-1) if uniform(0, 1, generator) < 0.5 else crop


def jitter(pixels: Tensor, generator: Generator) -> Tensor:
    """Scale brightness, contrast and saturation of float pixels [B, 3, H, W], each photo by its own."""
    factors = 1 + JITTER * (2 * torch.rand((3, len(pixels), 1, 1, 1), generator=generator) - 1)
    brightness, contrast, saturation = factors
    luma = torch.tensor(LUMA).view(3, 1, 1)
    pixels = pixels * brightness
    grey = (pixels * luma).sum(dim=1, keepdim=True)
    pixels = grey + saturation * (pixels - grey)
    mean = grey.mean(dim=(2, 3), keepdim=True)
    return torch.clamp(mean + contrast * (pixels - mean), 0, 255)


def augment(pixels: Tensor, size: int, generator: Generator) -> Tensor:
    """Turn uint8 photos [B, 3, S, S] into random training views, normalised float [B, 3, size, size]."""
    crops = torch.stack([random_crop(photo, size, generator) for photo in pixels])
    return normalise(jitter(crops, generator))
