"""One measured run in a process of its own: `ablate` starts it, with its settings as JSON."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from training.errors import TrainingError
from training.sentiment import LABELS
from training.sentiment.ablate import Measurement, Result
from training.sentiment.base import load
from training.sentiment.data import Tweets, read
from training.sentiment.fit import trainer_of
from training.sentiment.settings import Settings

LAST = 10  # steps whose mean loss is the final one
KIB = 1024


class Clock(TrainerCallback):  # type: ignore[misc]
    """When each step ended, in seconds by the wall and of this process's work, and its loss."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.worked: list[float] = []
        self.losses: list[float] = []

    def on_train_begin(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        """Start."""
        self._note()

    def on_step_end(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        """Note the time, once the accelerator is done."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._note()

    def _note(self) -> None:
        self.ends.append(time.perf_counter())
        self.worked.append(time.process_time())

    def on_log(self, _args: Any, _state: Any, _control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Note the loss."""
        if logs and "loss" in logs:
            self.losses.append(logs["loss"])


def measure(plan: Measurement, settings: Settings) -> Result:
    """Train for the steps of `plan`, and throw the result away. Raises TrainingError."""
    tweets = read(plan.train, "train", LABELS, mend=plan.mend)
    base = load(plan.base, LABELS, attention_dropout=settings.attention_dropout)
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="marsmith-") as scratch:
        trainer = trainer_of(
            base,
            tweets,
            Tweets(tweets.texts[:1], tweets.labels[:1]),
            settings,
            Path(scratch),
            max_steps=plan.warm_up + plan.steps,
            eval_strategy="no",
            save_strategy="no",
            load_best_model_at_end=False,
            logging_steps=1,
        )
        trainer.add_callback(clock)
        trainer.train()
    warm = clock.ends[plan.warm_up] - clock.ends[0]
    seconds = clock.ends[-1] - clock.ends[plan.warm_up]
    last = clock.losses[-LAST:]
    return {
        "steps_per_second": plan.steps / seconds,
        "samples_per_second": plan.steps * settings.batch * settings.accumulate / seconds,
        # What a busy machine does not disturb much, on a CPU.
        "cpu_seconds_per_step": (clock.worked[-1] - clock.worked[plan.warm_up]) / plan.steps,
        "warm_up_seconds": warm,
        "peak_bytes": peak_bytes(),
        "final_loss": sum(last) / len(last),
    }


def peak_bytes() -> int:
    """Most memory in use so far: of the GPU where there is one, else of this process (resident)."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB  # Linux counts in KiB


def main() -> None:
    """Measure what the argument asks for, and print the result as JSON."""
    asked = json.loads(sys.argv[1])
    try:
        result = measure(Measurement(**asked["plan"]), Settings(**asked["settings"]))
    except TrainingError as error:
        sys.exit(f"Error: {error}")
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
