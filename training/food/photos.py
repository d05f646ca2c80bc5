"""Photos as training keeps them: decoded, turned upright and shrunk once, uint8 in memory."""

from __future__ import annotations

import io
import math
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from training.errors import TrainingError
from training.food.distributed import Processes
from training.food.progress import console, track
from training.food.sources import UNLABELLED, Source, listed, open_source

RESAMPLE = Image.Resampling.BICUBIC
# A photo larger than this is taken for a decompression bomb: 12 times the pixels of a phone's photo.
MAX_PIXELS = 150_000_000
ALONE = Processes()


@dataclass(frozen=True, slots=True)
class Photos:
    """A split of N photos: `labels` int64 [N] are ids of `classes`, or UNLABELLED.

    `memory` is uint8 [M, 3, S, S]; `rows` int64 [N] are the photos' places there, all of them where it is None.
    """

    memory: Tensor
    labels: Tensor
    classes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    rows: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def pixels(self, items: Tensor) -> Tensor:
        """Return the photos `items` int64 [B], uint8 [B, 3, S, S]."""
        return self.memory[items if self.rows is None else self.rows[items]]

    @property
    def labelled(self) -> bool:
        """Whether every photo has a label."""
        return bool((self.labels != UNLABELLED).all())


def spread(count: int, most: int) -> Tensor:
    """Return up to `most` places int64 [M] spread evenly over `count`: photos lie sorted by class."""
    return torch.linspace(0, count - 1, min(count, most)).round().long()


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


def load_photos(data: str, split: str, size: int, processes: Processes = ALONE) -> Photos | None:
    """Read one split, every photo shrunk to `size` pixels square (3 * size * size bytes each); None when absent.

    Files that do not decode are left out, counted and named on stderr. Raises TrainingError when none is left.
    """
    source = open_source(data, split)
    return None if source is None else read_all(source, split, size, processes)


def need_photos(data: str, split: str, size: int, processes: Processes = ALONE) -> Photos:
    """As `load_photos`, of a split that must be there."""
    photos = load_photos(data, split, size, processes)
    if photos is None:
        raise TrainingError(f"{data} has no {split} split: put photos into a folder {split}/.")
    return photos


def read_all(source: Source, split: str, size: int, processes: Processes = ALONE) -> Photos:
    """Decode every photo of `source`: each process of a machine its share, into memory that they have in common."""
    count = len(source.names)
    mine = range(processes.local_rank, count, processes.local_world)

    def one(index: int) -> Tensor | None:
        try:
            return decode(source.read(index), size)
        except Exception:  # Pillow's decoders raise nearly anything for a broken file
            return None

    pixels = _common_memory(count, size, processes)
    broken = set[int]()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        photos = zip(mine, pool.map(one, mine), strict=True)
        for index, photo in track(photos, f"read {split}", len(mine)):
            if photo is None:
                broken.add(index)
            else:
                pixels[index] = photo
    broken = set[int]().union(*processes.gather(broken))
    if len(broken) == count:
        raise TrainingError(f"None of the {count} photos of {split} can be read: check the files, or fetch them again.")
    skipped = tuple(source.names[index] for index in sorted(broken))
    if skipped:
        console.print(f"{len(skipped)} of {count} photos of {split} cannot be read, left out: {listed(skipped, 10)}")
    kept = torch.tensor([index for index in range(count) if index not in broken])
    return Photos(pixels, torch.tensor(source.labels)[kept], tuple(source.classes), skipped, kept if skipped else None)


def _common_memory(count: int, size: int, processes: Processes) -> Tensor:
    """Return uint8 [count, 3, size, size] that the processes of this machine share; a kill leaves no file behind."""
    shape = (count, 3, size, size)
    if processes.local_world == 1:
        return torch.empty(shape, dtype=torch.uint8)
    # torchrun is the parent of all of them.
    file = Path(tempfile.gettempdir()) / f"marsmith-photos-{os.getppid()}"
    if processes.local_rank == 0:
        with file.open("wb") as new:
            new.truncate(math.prod(shape))
        reserve(file)
    processes.wait()
    pixels = torch.from_file(str(file), shared=True, size=math.prod(shape), dtype=torch.uint8).view(shape)
    processes.wait()
    if processes.local_rank == 0:
        file.unlink()
    return pixels


def reserve(file: Path) -> None:
    """Give a file its whole space on the disk now: a map of a file with holes ends the process where none is left.

    Raises OSError for a full disk; the file is removed then.
    """
    try:
        with file.open("r+b") as opened:
            os.posix_fallocate(opened.fileno(), 0, file.stat().st_size)
    except OSError as error:
        file.unlink()
        raise OSError(error.errno, error.strerror, str(file)) from None
