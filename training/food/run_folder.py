"""The folder that a training writes: the model as any tool reads it, a log, and what a resumed run needs."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from training.errors import TrainingError
from training.food.checkpoint import full_disk_is_an_oserror
from training.food.networks import Classifier

READABLE = 0o644
LOG, REPORT, RESUME = "log.jsonl", "report.json", "resume"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`path` holds config.json, model.safetensors and preprocessor_config.json, LOG, REPORT once done, RESUME."""

    path: Path

    @property
    def states(self) -> Path:
        """Where checkpoints to resume from lie."""
        return self.path / RESUME

    def check(self, *, resume: bool) -> None:
        """Raise TrainingError when the folder is in use already, or a run to resume has ended."""
        if resume and (self.path / REPORT).is_file():
            raise TrainingError(f"The run in {self.path} is complete: name another folder to train again.")
        if not resume and self.path.is_dir() and any(self.path.iterdir()):
            raise TrainingError(f"{self.path} is not empty: name a new folder, or pass --resume to go on there.")

    def log(self, **figures: Any) -> None:
        """Append a line to the log."""
        with (self.path / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")

    def rewind(self, step: int) -> None:
        """Drop the log's lines after `step`, and one that a kill cut off."""
        file = self.path / LOG
        if file.is_file():
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if line.endswith("}\n") and json.loads(line)["step"] <= step]
            write_whole(file, "".join(kept))

    def finish(self, report: dict[str, Any]) -> None:
        """Write the report, and remove what only a resumed run needs."""
        write_whole(self.path / REPORT, json.dumps(report, indent=2) + "\n")
        shutil.rmtree(self.states, ignore_errors=True)

    def export(self, classifier: Classifier, model: PreTrainedModel, dtype: torch.dtype) -> None:
        """Write `model` in `dtype` with the labels and preprocessing of `classifier`; each file whole or as it was."""
        export(Classifier(model, classifier.labels, classifier.see), self.path, dtype)


def write_whole(file: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    new = file.with_name(f".{file.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


def export(classifier: Classifier, folder: Path, dtype: torch.dtype) -> None:
    """Write config.json, model.safetensors in `dtype` and preprocessor_config.json; the network is untouched."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=folder) as name, full_disk_is_an_oserror(folder):
        new = Path(name)
        copy.deepcopy(classifier.model).to("cpu", dtype).save_pretrained(new)
        classifier.see.save(new)
        for file in sorted(new.iterdir()):
            file.chmod(READABLE)  # the safetensors library gives its owner alone the right to read
            file.replace(folder / file.name)
