"""Checkpoints that survive a kill and a full disk: sealed once whole, and only then are older ones discarded."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

SEAL = "sealed.json"
KEPT = 2  # the newest and the best; the one before where they are the same
NAME = re.compile(r"^checkpoint-(\d+)\Z")
PICKLED_ARGUMENTS = "training_args.bin"  # transformers writes it and never reads it


def seal(checkpoint: Path) -> None:
    """Write down the size of every file, once all are on the disk. Raises OSError."""
    (checkpoint / PICKLED_ARGUMENTS).unlink(missing_ok=True)
    sizes = {}
    for file in sorted(checkpoint.iterdir()):
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
        sizes[file.name] = file.stat().st_size
    unfinished = checkpoint / f".{SEAL}"
    unfinished.write_text(json.dumps(sizes, indent=2) + "\n", "utf-8")
    unfinished.replace(checkpoint / SEAL)


def is_sealed(checkpoint: Path) -> bool:
    """Whether every file has the size that the seal says."""
    try:
        sizes = json.loads((checkpoint / SEAL).read_text("utf-8"))
        return all((checkpoint / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


def step_of(checkpoint: Path) -> int:
    """Optimizer steps after which it was saved."""
    match = NAME.match(checkpoint.name)
    return int(match[1]) if match else -1


def sealed(folder: Path) -> list[Path]:
    """Whole checkpoints of a folder, oldest first."""
    found = folder.iterdir() if folder.is_dir() else iter(())
    return sorted((path for path in found if NAME.match(path.name) and is_sealed(path)), key=step_of)


def discard(folder: Path, best: int | None) -> None:
    """Remove broken checkpoints, and whole ones beyond the newest KEPT, among which that of step `best` is counted."""
    whole = sealed(folder)
    first = [path for path in whole if step_of(path) == best] + whole[:-1][::-1]
    keep = {*whole[-1:]}
    for path in first:
        if len(keep) < KEPT:
            keep.add(path)
    for path in folder.iterdir():
        if NAME.match(path.name) and path not in keep:
            shutil.rmtree(path, ignore_errors=True)
