"""A progress bar of rich on standard error in place of the Trainer's own, and a line for every evaluation."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress
from transformers import TrainerCallback


class Bar(TrainerCallback):  # type: ignore[misc]
    """Shows steps, loss and what is left of the time."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=console)
        self._task = self._progress.add_task("fine-tune", total=None)

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Start, where a resumed training left off."""
        if state.is_world_process_zero:
            self._progress.update(self._task, total=state.max_steps, completed=state.global_step)
            self._progress.start()

    def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Advance."""
        self._progress.update(self._task, completed=state.global_step)

    def on_log(self, _args: Any, _state: Any, _control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Show the loss."""
        if logs and "loss" in logs:
            self._progress.update(self._task, description=f"loss {logs['loss']:.3f}")

    def on_evaluate(self, _args: Any, state: Any, _control: Any, metrics: dict[str, float], **_: Any) -> None:
        """Print the scores on the validation tweets."""
        if state.is_world_process_zero:
            shown = ", ".join(
                f"{name.replace('_', ' ')} {metrics[f'eval_{name}']:.4f}"
                for name in ("loss", "macro_recall", "macro_f1", "accuracy")
            )
            self._progress.console.log(f"step {state.global_step}/{state.max_steps}: {shown}")

    def on_train_end(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        """End the bar."""
        self.close()

    def close(self) -> None:
        """End the bar, also of a training that failed."""
        self._progress.stop()
