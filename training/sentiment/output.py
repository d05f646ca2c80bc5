"""The folder that a training leaves: claimed before it starts, and filled only when it is done."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from training.errors import TrainingError
from training.sentiment.settings import Store

CHECKPOINTS = "checkpoints"
SETTINGS = "settings.json"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
# What may differ between a training and its resumption: none changes the result by more than rounding.
FREE = ("threads", "store")


def claim(out: Path, settings: Mapping[str, object], *, resume: bool, force: bool) -> Path:
    """Make the folder of the checkpoints in `out` and return it.

    `out` must be new or empty, or hold an unfinished training of the same `settings` where `resume`; with `force`
    what a training there left is overwritten. Raises TrainingError.
    """
    folder = out / CHECKPOINTS
    if out.exists() and not out.is_dir():
        raise TrainingError(f"{out} is a file: name a folder for the output.")
    if resume and folder.is_dir():
        _require_same(folder, settings)
    elif resume and (out / CONFIG).is_file():
        raise TrainingError(f"{out} holds a finished model: there is nothing to resume.")
    elif force:
        shutil.rmtree(folder, ignore_errors=True)
    elif out.is_dir() and any(out.iterdir()):
        raise TrainingError(
            f"{out} is not empty: name another folder, go on with --resume, or overwrite it with --force."
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
    return folder


def _require_same(folder: Path, settings: Mapping[str, object]) -> None:
    try:
        before = json.loads((folder / SETTINGS).read_text("utf-8"))
    except (OSError, ValueError):
        return  # killed before it began
    differing = [f"{name} was {before.get(name)!r}" for name in settings if before.get(name) != settings[name]]
    differing = [words for words in differing if words.split()[0] not in FREE]
    if differing:
        raise TrainingError(
            f"The training in {folder.parent} had other settings ({', '.join(differing)}): repeat them."
        )


@contextmanager
def published(out: Path) -> Iterator[Path]:
    """A scratch folder in `out` whose files take their place in `out` on success, config.json last."""
    with tempfile.TemporaryDirectory(dir=out, prefix=".new-") as scratch:
        yield Path(scratch)
        for file in sorted(Path(scratch).iterdir(), key=lambda file: file.name == CONFIG):
            file.replace(out / file.name)


def store(model: Any, tokenizer: Any, folder: Path, precision: Store) -> None:
    """Write config.json, model.safetensors in `precision` and the tokenizer; `model` is untouched."""
    kept = copy.deepcopy(model).cpu()
    kept = kept.half() if precision == "fp16" else kept.float()
    if not all(bool(torch.isfinite(tensor).all()) for tensor in kept.state_dict().values()):
        raise TrainingError("Some weights are too large for fp16: train again with --store fp32.")
    try:
        kept.save_pretrained(folder)
    except SafetensorError as error:  # a full disk, in safetensors' words
        raise TrainingError(f"The weights could not be written ({error}): free some space and use --resume.") from None
    # safetensors lets its owner alone read what it writes.
    (folder / WEIGHTS).chmod((folder / CONFIG).stat().st_mode)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
