"""Photos as training keeps them: decoded, turned upright and shrunk once, uint8 in memory."""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from training.errors import TrainingError
from training.food.progress import console, track
from training.food.sources import UNLABELLED, Source, listed, open_source

RESAMPLE = Image.Resampling.BICUBIC
# A photo larger than this is taken for a decompression bomb: 12 times the pixels of a phone's photo.
MAX_PIXELS = 150_000_000


@dataclass(frozen=True, slots=True)
class Photos:
    """A split: `pixels` uint8 [N, 3, S, S], `labels` int64 [N] (ids of `classes`, or UNLABELLED)."""

    pixels: Tensor
    labels: Tensor
    classes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def labelled(self) -> bool:
        """Whether every photo has a label."""
        return bool((self.labels != UNLABELLED).all())


def upright(photo: Image.Image) -> Image.Image:
    """Return the photo as RGB, turned as its EXIF orientation says."""
    return ImageOps.exif_transpose(photo).convert("RGB")


def decode(data: bytes, size: int) -> Tensor:
    """Return the whole photo squashed to uint8 [3, size, size], bicubic, as ViTImageProcessor does.

    EXIF's orientation is followed, as it is when serving. Raises what Pillow raises for a file that is no photo.
    """
    with Image.open(io.BytesIO(data)) as photo:
        if photo.width * photo.height > MAX_PIXELS:
            raise ValueError("too many pixels")
        photo.draft("RGB", (2 * size, 2 * size))
        pixels = np.array(upright(photo).resize((size, size), RESAMPLE))
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def load_photos(data: str, split: str, size: int) -> Photos | None:
    """Read one split, every photo shrunk to `size` pixels square (3 * size * size bytes each); None when absent.

    Files that do not decode are left out, counted and named on stderr. Raises TrainingError when none is left.
    """
    source = open_source(data, split)
    return None if source is None else read_all(source, split, size)


def need_photos(data: str, split: str, size: int) -> Photos:
    """As `load_photos`, of a split that must be there."""
    photos = load_photos(data, split, size)
    if photos is None:
        raise TrainingError(f"{data} has no {split} split: put photos into a folder {split}/.")
    return photos


def read_all(source: Source, split: str, size: int) -> Photos:
    """Decode every photo of `source`, as many at a time as there are cores."""
    count = len(source.names)

    def one(index: int) -> Tensor | None:
        try:
            return decode(source.read(index), size)
        except Exception:  # Pillow's decoders raise nearly anything for a broken file
            return None

    pixels = torch.empty((count, 3, size, size), dtype=torch.uint8)
    kept, skipped = list[int](), list[str]()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for index, photo in enumerate(track(pool.map(one, range(count)), f"read {split}", count)):
            if photo is None:
                skipped.append(source.names[index])
                continue
            pixels[len(kept)] = photo
            kept.append(index)
    if not kept:
        raise TrainingError(f"None of the {count} photos of {split} can be read: check the files, or fetch them again.")
    if skipped:
        console.print(f"{len(skipped)} of {count} photos of {split} cannot be read, left out: {listed(skipped, 10)}")
    labels = torch.tensor([source.labels[index] for index in kept])
    return Photos(pixels[: len(kept)], labels, tuple(source.classes), tuple(skipped))
