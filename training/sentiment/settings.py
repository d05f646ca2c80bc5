"""How to train: one record that the command fills, the report shows and a checkpoint is resumed with."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

GRADIENT_NORM = 1.0
LOGGED_EVERY = 10  # steps, for the plot of the loss

Store = Literal["fp16", "fp32"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults suit a RoBERTa-base; a smaller network takes a higher rate.

    `balance` is the power of the inverse class share that weighs a class in the loss: 0 none, 1 all classes alike.
    `warm_up` is the share of all steps, `every` the steps from one evaluation to the next (0: once an epoch),
    `patience` the evaluations without a better macro recall that end the training (0: never).
    `attention_dropout` below 0 leaves the base's. `max_steps` above 0 overrules `epochs`.
    """

    epochs: float = 3.0
    max_steps: int = 0
    batch: int = 32
    accumulate: int = 1
    lr: float = 2e-5
    warm_up: float = 0.06
    weight_decay: float = 0.01
    balance: float = 0.0
    attention_dropout: float = -1.0
    max_tokens: int = 128
    group_by_length: bool = True
    every: int = 0
    patience: int = 0
    seed: int = 20
    threads: int = 0
    optim: str = "adamw_torch_fused"
    torch_compile: bool = False
    bf16: bool = False
    store: Store = "fp16"

    def table(self) -> dict[str, object]:
        """Names and values, as a report shows them."""
        return dataclasses.asdict(self)

    def arguments(self, checkpoints: Path) -> dict[str, Any]:
        """The keyword arguments of transformers' TrainingArguments; checkpoints go to that folder."""
        import torch

        when: dict[str, Any] = {"eval_strategy": "epoch", "save_strategy": "epoch"}
        if self.every:
            when = {"eval_strategy": "steps", "save_strategy": "steps", "eval_steps": self.every}
            when["save_steps"] = self.every
        return when | {
            "output_dir": str(checkpoints),
            "num_train_epochs": self.epochs,
            "max_steps": self.max_steps or -1,
            "per_device_train_batch_size": self.batch,
            "per_device_eval_batch_size": 2 * self.batch,
            "gradient_accumulation_steps": self.accumulate,
            "learning_rate": self.lr,
            "warmup_steps": self.warm_up,  # below 1: a share of all steps
            "weight_decay": self.weight_decay,
            "max_grad_norm": GRADIENT_NORM,
            "lr_scheduler_type": "linear",
            "optim": self.optim,
            "torch_compile": self.torch_compile,
            "bf16": self.bf16,
            "use_cpu": not torch.cuda.is_available(),  # or the Trainer refuses bf16 on a CPU
            "seed": self.seed,
            "logging_steps": LOGGED_EVERY,
            "logging_nan_inf_filter": False,  # or a NaN would show as the mean of the losses before it
            "average_tokens_across_devices": False,
            "load_best_model_at_end": True,
            "metric_for_best_model": "macro_recall",
            "greater_is_better": True,
            "restore_callback_states_from_checkpoint": True,  # the patience
            "remove_unused_columns": False,
            "disable_tqdm": True,
            "report_to": "none",
            "log_level": "error",
        }
