"""Fine-tune a base on tweets, keep the best state, and go on after a kill."""

from __future__ import annotations

import functools
import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from transformers import EarlyStoppingCallback, PrinterCallback, TrainerState, TrainingArguments, set_seed

from training.attention import attend_in_fp32
from training.errors import TrainingError
from training.sentiment import LABELS, checkpoints
from training.sentiment.base import Base
from training.sentiment.batches import Collator, encode
from training.sentiment.compiler import compile_blocks, require_compiler
from training.sentiment.data import Tweets
from training.sentiment.progress import Bar
from training.sentiment.settings import Settings
from training.sentiment.trainer import SentimentTrainer, scores_of, weights

COMPILED_MULTIPLE = 8  # widths of compiled batches: fewer shapes, and rows that start at whole vectors


@dataclass(frozen=True, slots=True)
class Fitted:
    """The network of the best evaluation, in place; the Trainer's log of losses and scores; what was best, and when."""

    history: list[dict[str, float]]
    best_step: int
    steps: int
    resumed_at: int


def trainer_of(
    base: Base, train: Tweets, validation: Tweets, settings: Settings, folder: Path, **arguments: Any
) -> SentimentTrainer:
    """Return a Trainer that is ready; its checkpoints go to `folder`, and `arguments` overrule its TrainingArguments.

    Training tweets are cut at `settings.max_tokens`, validation tweets where the archive's handler will cut them.
    Raises TrainingError for settings that the Trainer refuses.
    """
    quiet()
    if settings.threads:
        torch.set_num_threads(settings.threads)
    if settings.torch_compile:
        require_compiler()
        compile_blocks()
    if settings.bf16 and not torch.cuda.is_available():
        attend_in_fp32(base.model)
    set_seed(settings.seed)
    try:
        planned = TrainingArguments(**settings.arguments(folder) | arguments)
    except (ValueError, ImportError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise TrainingError(f"The Trainer does not take these settings: {reason.rstrip('.')}.") from None
    multiple = COMPILED_MULTIPLE if settings.torch_compile else 1
    trainer = SentimentTrainer(
        model=base.model,
        args=planned,
        data_collator=Collator(base.model.config.pad_token_id, multiple),
        train_dataset=encode(base.tokenizer, train, min(settings.max_tokens, base.max_tokens)),
        eval_dataset=encode(base.tokenizer, validation, base.max_tokens),
        compute_metrics=functools.partial(scores_of, labels=LABELS),
        class_weights=weights(train.counts(len(LABELS)), settings.balance),
        group_by_length=settings.group_by_length,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def fit(
    base: Base, train: Tweets, validation: Tweets, settings: Settings, folder: Path, console: Console, *, resume: bool
) -> Fitted:
    """Train `base.model` in place and leave it in the state that had the best macro recall on `validation`.

    Checkpoints go to `folder`; with `resume`, training goes on from the newest whole one there, if any. Raises
    TrainingError.
    """
    whole = checkpoints.sealed(folder) if resume else []
    start = whole[-1] if whole else None
    trainer = trainer_of(base, train, validation, settings, folder)
    if settings.patience:
        trainer.add_callback(EarlyStoppingCallback(settings.patience))
    bar = Bar(console)
    trainer.add_callback(bar)
    if start is not None:
        console.log(f"going on from {start}")
    try:
        if start is not None and ended(start):
            trainer.state = TrainerState.load_from_json(str(start / "trainer_state.json"))
        else:
            trainer.train(resume_from_checkpoint=str(start) if start else None)
    finally:
        bar.close()
    state = trainer.state
    load_state(base.model, folder / f"checkpoint-{state.best_global_step}")
    return Fitted(
        state.log_history, state.best_global_step, state.global_step, checkpoints.step_of(start) if start else 0
    )


def ended(checkpoint: Path) -> bool:
    """Whether the training had ended with this checkpoint: all steps done, or the patience at its end."""
    state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    control = state.stateful_callbacks.get("TrainerControl", {})
    return state.global_step >= state.max_steps or bool(control.get("args", {}).get("should_training_stop"))


def load_state(model: Any, checkpoint: Path) -> None:
    """Give `model` the weights of a checkpoint. Raises TrainingError where it is broken."""
    from safetensors.torch import load_model

    if not checkpoints.is_sealed(checkpoint):
        raise TrainingError(f"{checkpoint} is not whole, though it was the best: train again with --force.")
    load_model(model, str(checkpoint / "model.safetensors"), device=str(model.device))


def quiet() -> None:
    """Leave standard error to the progress bar: libraries may say nothing below an error there."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    logging.getLogger("accelerate").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(torch|transformers|accelerate)\b")
