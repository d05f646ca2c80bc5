"""Marsmith: an archive that `marsmith build` makes of the same checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.agreement import Answer
from benchmarks.subjects import BenchmarkError, Job
from benchmarks.torchserve import MODEL, RESPONSE_TIMEOUT_S, STARTUP_TIMEOUT_S, TorchServe

TOP_K = 5


class Marsmith(TorchServe):
    """`marsmith` builds with the recipe's default precision, `marsmith:int8` with that one."""

    ours = True

    def __init__(self, job: Job, python: Path | None = None, precision: str = "") -> None:
        super().__init__(job, python)
        self.name = f"marsmith:{precision}" if precision else "marsmith"
        self.title = f"Marsmith{f', {precision}' if precision else ''}"
        self._precision = precision

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
        serving = {
            "batch_size": self.job.batch_size,
            "max_batch_delay_ms": self.job.delay_ms,
            "response_timeout_s": RESPONSE_TIMEOUT_S,
            "startup_timeout_s": STARTUP_TIMEOUT_S,
        }
        # JSON's spelling of strings and numbers is TOML's too.
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        return "\n".join([*lines, "[serving]", *(f"{key} = {value}" for key, value in serving.items())]) + "\n"

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
