"""Marsmith: an archive that `marsmith build` makes of the same checkpoint."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.speed import inputs
from benchmarks.speed.agreement import Answer
from benchmarks.speed.subjects import BenchmarkError, Job
from benchmarks.speed.torchserve import MODEL, RESPONSE_TIMEOUT_S, STARTUP_TIMEOUT_S, TorchServe
from marsmith.resources import worker_site

TOP_K = 5
# What the build compares a network of reduced precision on: neither what the servers are asked, nor what the last layer
# of the checkpoint was made from.
ACCURACY_SEED = 10
ACCURACY_TEXTS, ACCURACY_PHOTOS = 128, 64
# Less than a recipe's default: a random network hardly prefers a label where a trained one would, and the build counts
# these too. The run itself holds each archive to its labels wherever the checkpoint has decided (agreement.py).
LEAST_LABEL_AGREEMENT = 0.9
ACCURACY = "MAR-INF/accuracy.json"


class Marsmith(TorchServe):
    """`marsmith` builds with the recipe's default precision, `marsmith:int8` with that one."""

    ours = True

    def __init__(self, job: Job, python: Path | None = None, precision: str = "") -> None:
        super().__init__(job, python)
        self.name = f"marsmith:{precision}" if precision else "marsmith"
        self.title = f"Marsmith{f', {precision}' if precision else ''}"
        self._precision = precision
        self._several = False

    @contextlib.contextmanager
    def set_up_for_several(self) -> Iterator[None]:
        """Workers share one copy of the weights, as they do where a recipe has more than one."""
        self._several = True
        try:
            yield
        finally:
            self._several = False

    def environment(self) -> dict[str, str]:
        """As `marsmith serve` starts TorchServe: its workers do without torch."""
        own = {"PYTHONPATH": str(worker_site())} | ({"MARSMITH_SHARE_WEIGHTS": "yes"} if self._several else {})
        return super().environment() | own

    def pack(self) -> None:
        """Write a recipe, and build it as a user does."""
        recipe = self.home / "recipe.toml"
        recipe.write_text(self._recipe(), encoding="utf-8")
        command = [sys.executable, "-m", "marsmith", "build", str(recipe), "-o", str(self.archive.parent)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if result.returncode:
            raise BenchmarkError(f"marsmith build failed: {result.stderr.strip()[-500:]}")

    def _recipe(self) -> str:
        keys: dict[str, Any] = {"name": MODEL, "task": self.job.task, "checkpoint": str(self.job.checkpoint)}
        keys |= {"top_k": TOP_K} if self.job.task == "food" else {}
        keys |= {"precision": self._precision} if self._precision else {}
        serving: dict[str, Any] = {
            "batch_size": self.job.batch_size,
            "max_batch_delay_ms": self.job.delay_ms,
            "response_timeout_s": RESPONSE_TIMEOUT_S,
            "startup_timeout_s": STARTUP_TIMEOUT_S,
        }
        tables = {"serving": serving}
        if self._precision == "int8":
            asked = {"inputs": str(self._accuracy_inputs()), "min_label_agreement": LEAST_LABEL_AGREEMENT}
            tables["accuracy"] = asked
        lines = _assignments(keys)
        for name, table in tables.items():
            lines += [f"[{name}]", *_assignments(table)]
        return "\n".join(lines) + "\n"

    def _accuracy_inputs(self) -> Path:
        """A file of texts, a line each, or a directory of photos."""
        if self.job.task == "sentiment":
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_file(str(self.job.checkpoint / "tokenizer.json"))
            file = self.home / "accuracy.txt"
            texts = inputs.texts(tokenizer, ACCURACY_TEXTS, ACCURACY_SEED)
            file.write_text("".join(f"{text.strip()}\n" for text in texts), encoding="utf-8")
            return file
        directory = self.home / "accuracy"
        directory.mkdir(exist_ok=True)
        for index, photo in enumerate(inputs.thumbnails(ACCURACY_PHOTOS, ACCURACY_SEED)):
            (directory / f"{index}.jpg").write_bytes(photo)
        return directory

    def accuracy(self) -> dict[str, Any] | None:
        """What the build found out about a network of reduced precision, None of another."""
        with zipfile.ZipFile(self.archive) as archive:
            if ACCURACY not in archive.namelist():
                return None
            found: dict[str, Any] = json.loads(archive.read(ACCURACY))
            return found

    def content_type(self) -> str:
        """JSON for texts; an image is its own request."""
        return "application/json" if self.job.task == "sentiment" else "application/octet-stream"

    def body(self, data: bytes) -> bytes:
        """As the README's examples."""
        return json.dumps({"text": data.decode("utf-8")}).encode("utf-8") if self.job.task == "sentiment" else data

    def answer(self, raw: str) -> Answer:
        """Label and scores."""
        value = json.loads(raw)
        if self.job.task == "sentiment":
            return Answer(value["label"], value["scores"])
        scores = {dish["label"]: float(dish["score"]) for dish in value["dishes"]}
        return Answer(value["dishes"][0]["label"], scores)


def _assignments(table: dict[str, Any]) -> list[str]:
    # JSON's spelling of strings and numbers is TOML's too.
    return [f"{key} = {json.dumps(value)}" for key, value in table.items()]
