"""Where photos come from: a folder of class folders, a folder of photos, parquet files, or a hub data set.

A source only lists and reads bytes; `photos` decodes them, so that a corrupt file is told by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from training.errors import TrainingError

UNLABELLED = -1
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif"}
# What a split may be called, most usual first.
SPLITS = {"train": ("train",), "val": ("val", "validation", "valid", "dev"), "test": ("test",)}


class Source(Protocol):
    """N photos as stored."""

    @property
    def classes(self) -> list[str]:
        """The classes' names in id order; none of unlabelled photos."""

    @property
    def labels(self) -> list[int]:
        """The id of each photo's class, or UNLABELLED."""

    @property
    def names(self) -> list[str]:
        """What to call each photo."""

    def read(self, index: int) -> bytes:
        """Return the file of photo `index`."""


def plain(name: str) -> str:
    """Return a class name as people write it: "Sour-Cream" and "sour_cream" become "Sour Cream" and "sour cream"."""
    return name.replace("-", " ").replace("_", " ").strip()


@dataclass(frozen=True, slots=True)
class Files:
    """Photos that lie as files."""

    classes: list[str]
    labels: list[int]
    paths: list[Path]
    names: list[str]

    def read(self, index: int) -> bytes:
        """Return the file of photo `index`."""
        return self.paths[index].read_bytes()


@dataclass(frozen=True, slots=True)
class Rows:
    """Photos in a table of the `datasets` library, undecoded."""

    classes: list[str]
    labels: list[int]
    names: list[str]
    table: Any
    column: str

    def read(self, index: int) -> bytes:
        """Return the file of photo `index`."""
        cell = self.table[index][self.column]
        return cell["bytes"] if cell["bytes"] is not None else Path(cell["path"]).read_bytes()


def open_source(data: str, split: str) -> Source | None:
    """Return the photos of `split` ("train", "val", "test"); None when `data` has no such split.

    `data` is a folder (class folders under train/, val/ and test/; photos straight in train/ are unlabelled; so are
    those of a folder without any split, which counts as train), a parquet file, a folder of them, or a hub id.
    Raises TrainingError when there is nothing of the kind, or a class folder without photos.
    """
    path = Path(data)
    if path.is_file() and path.suffix == ".parquet":
        return _table("parquet", {"train": str(path)}, split)
    if not path.is_dir():
        if data.count("/") != 1 or data.startswith((".", "/")):
            raise TrainingError(f"There is no folder {data}: name one with train/, a parquet file, or a hub id.")
        return _table(data, None, split)
    if any(path.rglob("*.parquet")):
        files = {name: sorted(str(file) for file in path.rglob(f"{name}*.parquet")) for name in _names()}
        return _table("parquet", {name: found for name, found in files.items() if found}, split)
    folder = next((path / name for name in SPLITS[split] if (path / name).is_dir()), None)
    if folder is None and split == "train" and not any((path / name).is_dir() for name in _names()):
        folder = path
    return None if folder is None else open_folder(folder)


def _names() -> list[str]:
    return [name for names in SPLITS.values() for name in names]


def open_folder(folder: Path) -> Files:
    """List the photos of one split. Raises TrainingError when there are none, or a class has none."""
    classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not classes:
        paths = _photos(folder)
        if not paths:
            raise TrainingError(f"{folder} has no photos: put them into a folder for each class.")
        return Files([], [UNLABELLED] * len(paths), paths, [path.name for path in paths])
    found = {name: _photos(folder / name) for name in classes}
    empty = [name for name, paths in found.items() if not paths]
    if empty:
        raise TrainingError(
            f"{len(empty)} class folders of {folder} have no photos ({listed(empty)}): fill or remove them."
        )
    paths = [path for name in classes for path in found[name]]
    labels = [label for label, name in enumerate(classes) for _ in found[name]]
    names = [path.relative_to(folder).as_posix() for path in paths]
    return Files([plain(name) for name in classes], labels, paths, names)


def _photos(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())


def listed(names: Sequence[str], most: int = 5) -> str:
    """Write the first names and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _table(builder: str, files: dict[str, Any] | None, split: str) -> Rows | None:
    """Open a table; its photos are the column of images, its labels the column of classes, if it has one."""
    import datasets

    datasets.disable_progress_bars()
    try:
        loaded = datasets.load_dataset(builder, data_files=files)
    except Exception as error:  # the library raises its own, the hub's, pyarrow's and OS errors
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TrainingError(f"The data set {builder} cannot be read: {reason}. Check its name and network.") from None
    key = next((name for name in SPLITS[split] if name in loaded), None)
    if key is None:
        return None
    table = loaded[key]
    features = table.features
    columns = [name for name, kind in features.items() if isinstance(kind, datasets.Image)]
    columns += [name for name, kind in features.items() if name == "image" and name not in columns]
    if not columns:
        raise TrainingError(f"The data set {builder} has no column of images: it has {listed(list(features))}.")
    table = table.cast_column(columns[0], datasets.Image(decode=False))
    label = next((name for name, kind in features.items() if isinstance(kind, datasets.ClassLabel)), None)
    classes = [plain(name) for name in features[label].names] if label else []
    labels = list(table[label]) if label else [UNLABELLED] * len(table)
    return Rows(classes, labels, [f"{key} row {row}" for row in range(len(table))], table, columns[0])
