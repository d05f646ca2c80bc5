"""The GroceryStore photos (Klasson et al., WACV 2019, MIT) as a folder for each coarse class.

The folder holds `train.txt`, `val.txt` and `test.txt` (path, fine class, coarse class), `classes.csv` and the photos.
"""

from __future__ import annotations

import csv
import shutil
import tempfile
from pathlib import Path

from PIL import Image

from training.errors import TrainingError
from training.food.photos import RESAMPLE, upright
from training.food.progress import track

SPLITS = ("train", "val", "test")
JPEG_QUALITY = 95  # at which a squashed photo cannot be told from its PNG by eye


def read_labels(folder: Path) -> list[str]:
    """Return the 43 coarse class names in id order, as the file writes them ("Sour-Cream")."""
    with (folder / "classes.csv").open(newline="\n", encoding="utf-8-sig") as file:
        names = {int(row["Coarse Class ID (int)"]): row["Coarse Class Name (str)"] for row in csv.DictReader(file)}
    return [names[index].strip() for index in range(len(names))]


def read_split(folder: Path, split: str) -> list[tuple[Path, int]]:
    """Return (photo, coarse class) for each line of `{split}.txt`."""
    lines = (folder / f"{split}.txt").read_bytes().decode("utf-8-sig").removesuffix("\n").split("\n")
    rows = csv.reader(lines, skipinitialspace=True)
    return [(folder / path, int(coarse)) for path, _fine, coarse in rows]


def convert(folder: Path, out: Path, size: int = 0, *, png: bool = False) -> dict[str, int]:
    """Write `out`/{train,val,test}/CLASS/NAME, whole or not at all; return how many photos each split has.

    With `size`, photos are squashed to so many pixels square, bicubic, as JPEG or PNG; else they are copied as they
    are. Raises TrainingError when `out` exists or `folder` is not GroceryStore's.
    """
    if out.exists():
        raise TrainingError(f"{out} exists: name a folder that does not.")
    try:
        labels = read_labels(folder)
        splits = {split: read_split(folder, split) for split in SPLITS if (folder / f"{split}.txt").is_file()}
    except (OSError, KeyError, ValueError):
        raise TrainingError(f"{folder} is not GroceryStore's dataset folder: name the one with classes.csv.") from None
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as name:
        new = Path(name) / out.name
        for split, rows in splits.items():
            for path, label in track(rows, f"convert {split}", len(rows)):
                # Photos of the same name lie in several fine classes.
                relative = "_".join(path.relative_to(folder).parts[1:])
                target = new / split / labels[label] / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                _write(path, target, size, png=png)
        new.replace(out)
    return {split: len(rows) for split, rows in splits.items()}


def _write(path: Path, target: Path, size: int, *, png: bool) -> None:
    if not size:
        shutil.copyfile(path, target)
        return
    with Image.open(path) as photo:
        squashed = upright(photo).resize((size, size), RESAMPLE)
    if png:
        squashed.save(target.with_suffix(".png"))
    else:
        squashed.save(target.with_suffix(".jpg"), quality=JPEG_QUALITY, subsampling=0)
