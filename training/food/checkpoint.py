"""The state of a training on disk: whole or not there, readable without unpickling, for any number of processes."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.errors import TrainingError

WEIGHTS, AVERAGE, OPTIMIZER, STATE = "weights.safetensors", "average.safetensors", "optimizer.pt", "state.json"
OS_NO_SPACE = f"(os error {errno.ENOSPC})"  # how the safetensors library spells it


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What training needs to go on after `step` steps. `optimizer` is the whole state, not one process's shard."""

    step: int
    weights: dict[str, Tensor]
    average: dict[str, Tensor] | None
    optimizer: dict[str, Any]
    plan: dict[str, Any]


@contextmanager
def full_disk_is_an_oserror(file: Path) -> Iterator[None]:
    """Raise OSError(ENOSPC) where the safetensors library raises an error of its own."""
    try:
        yield
    except SafetensorError as error:
        if OS_NO_SPACE not in str(error):
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file)) from None


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write `folder`/step-N and remove those before it; an error or a kill on the way leaves them as they were."""
    folder.mkdir(parents=True, exist_ok=True)
    for rest in folder.glob(".*.new"):
        shutil.rmtree(rest)
    final = folder / f"step-{checkpoint.step:08d}"
    new = folder / f".{final.name}.new"
    new.mkdir()
    try:
        with full_disk_is_an_oserror(new):
            save_file({name: value.contiguous() for name, value in checkpoint.weights.items()}, new / WEIGHTS)
            if checkpoint.average is not None:
                save_file({name: value.contiguous() for name, value in checkpoint.average.items()}, new / AVERAGE)
        _save_optimizer(checkpoint.optimizer, new / OPTIMIZER)
        state = {"step": checkpoint.step, "plan": checkpoint.plan}
        (new / STATE).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        for file in new.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        new.replace(final)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    for old in found(folder):
        if old != final:
            shutil.rmtree(old)


def _save_optimizer(state: dict[str, Any], file: Path) -> None:
    """Write what torch.load(weights_only=True) reads. torch's writer hides a full disk's OSError behind its own."""
    with file.open("wb") as stream:
        try:
            torch.save(state, stream)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def found(folder: Path) -> list[Path]:
    """Return the whole checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir())


def load_last(folder: Path) -> Checkpoint | None:
    """Read the newest checkpoint onto the CPU; None when there is none. Raises TrainingError when it is damaged."""
    whole = found(folder)
    if not whole:
        return None
    last = whole[-1]
    try:
        state = json.loads((last / STATE).read_text(encoding="utf-8"))
        average = load_file(last / AVERAGE) if (last / AVERAGE).is_file() else None
        optimizer = torch.load(last / OPTIMIZER, map_location="cpu", weights_only=True)
        return Checkpoint(state["step"], load_file(last / WEIGHTS), average, optimizer, state["plan"])
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise TrainingError(
            f"The checkpoint {last} is damaged ({type(error).__name__}): remove it and resume."
        ) from None
