"""B5, the checkpoint run by `transformers.pipeline` without a server: a bound, and the answers that are right."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.speed.agreement import Answer
from benchmarks.speed.subjects import BenchmarkError, Job
from benchmarks.speed.torchserve import BASELINES

NAME, TITLE = "B5", "transformers.pipeline in process"


@dataclass(frozen=True, slots=True)
class Classified:
    """What one order brought: inputs a second, and the answer to each file."""

    per_second: float
    answers: list[Answer]


class Pipeline:
    """The process. It waits for orders without using the processor."""

    def __init__(self, job: Job) -> None:
        script = str(BASELINES / "pipeline_loop.py")
        command = [sys.executable, script, job.task, str(job.checkpoint), str(job.threads), str(job.batch_size)]
        job.home.mkdir(parents=True, exist_ok=True)
        self._log = (job.home / "pipeline.log").open("wb")
        self._process = subprocess.Popen(  # noqa: S603 - our own command line
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )

    def classify(self, files: Sequence[Path], seconds: float = 0) -> Classified:
        """Classify each file at least once, and all in turn for `seconds`. Raises BenchmarkError."""
        if self._process.stdin is None or self._process.stdout is None:
            raise BenchmarkError("The pipeline has no pipes.")
        order = json.dumps({"files": [str(file) for file in files], "seconds": seconds})
        try:
            self._process.stdin.write(order + "\n")
            self._process.stdin.flush()
        except OSError:
            raise BenchmarkError(f"transformers.pipeline ended: see {self._log.name!r}.") from None
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkError(f"transformers.pipeline ended: see {self._log.name!r}.")
        value: dict[str, Any] = json.loads(line)
        return Classified(value["count"] / value["seconds"], [answer_of(rows) for rows in value["answers"]])

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()


def answer_of(rows: Sequence[dict[str, Any]]) -> Answer:
    """A pipeline's answer: label and score of each class, the best first."""
    return Answer(str(rows[0]["label"]), {str(row["label"]): float(row["score"]) for row in rows})
