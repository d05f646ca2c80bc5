"""transformers' Trainer with class weights, our order of batches, and a stop before NaN spoils a checkpoint."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from transformers import Trainer

from training.errors import TrainingError
from training.metrics import Int64Array, Scores
from training.sentiment.batches import Encoded, LengthGrouped, by_length
from training.sentiment.checkpoints import discard, seal, sealed


class SentimentTrainer(Trainer):  # type: ignore[misc]
    """Cross-entropy weighted by class; every checkpoint is sealed before an older one goes."""

    def __init__(self, *arguments: Any, class_weights: torch.Tensor, group_by_length: bool, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.class_weights = class_weights.to(self.args.device)
        self.group_by_length = group_by_length
        self.loss_is_scaled_for_ga = False  # a mean over its batch: the Trainer divides by the batches of a step

    def compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **_: Any) -> Any:
        """Weighted mean cross-entropy of the batch."""
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        loss = torch.nn.functional.cross_entropy(outputs.logits.float(), inputs["labels"], self.class_weights)
        return (loss, outputs) if return_outputs else loss

    def training_step(self, *arguments: Any, **keywords: Any) -> Any:
        """Raise TrainingError where the loss is no number: the checkpoints are those of before."""
        loss = super().training_step(*arguments, **keywords)
        if not math.isfinite(loss.item()):
            raise TrainingError(f"The loss became {loss.item()} at step {self.state.global_step + 1}: {self._remedy()}")
        return loss

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write, seal, and only then discard; a full disk leaves the sealed ones as they are."""
        if not all(bool(torch.isfinite(parameter).all()) for parameter in self.model.parameters()):
            raise TrainingError(f"The weights are no numbers after step {self.state.global_step}: {self._remedy()}")
        folder = Path(self.args.output_dir)
        try:
            super()._save_checkpoint(model, trial)
            seal(folder / f"checkpoint-{self.state.global_step}")
        except (
            OSError,
            RuntimeError,
            SafetensorError,
        ) as error:  # torch and safetensors say a full disk in their own ways
            raise TrainingError(
                f"The checkpoint of step {self.state.global_step} could not be written to {folder} ({_reason(error)}): "
                f"{_last_good(folder)} Free some space and go on with --resume."
            ) from None
        discard(folder, self.state.best_global_step)

    def _remedy(self) -> str:
        return (
            f"training stopped. {_last_good(Path(self.args.output_dir))} "
            "Train with a lower --lr, or without --bf16, into another folder."
        )

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        dataset = self.train_dataset if train_dataset is None else train_dataset
        if not self.group_by_length or not isinstance(dataset, Encoded):
            return super()._get_train_sampler(train_dataset)
        # A step's batches are of one length, and so are those of all processes.
        size = self._train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        return LengthGrouped(dataset.lengths, size, self.args.seed)

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        if self.args.world_size > 1:
            return super()._get_eval_sampler(eval_dataset)
        return by_length(eval_dataset.lengths)


def _last_good(folder: Path) -> str:
    whole = sealed(folder)
    return f"The last good checkpoint is {whole[-1]}." if whole else "There is no checkpoint yet."


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return next(iter(str(error).splitlines()), type(error).__name__)


def weights(counts: Int64Array, balance: float) -> torch.Tensor:
    """Weight of each class in the loss, float32[L]: its inverse share to the power `balance`, 0 for one that is absent.

    With shares relative to even ones, a class as frequent as in a balanced set weighs 1.
    """
    shares = counts / counts.sum() * len(counts)
    powers = np.power(np.maximum(shares, np.finfo(np.float64).tiny), -balance)
    return torch.tensor(np.where(counts > 0, powers, 0.0), dtype=torch.float32)


def scores_of(prediction: Any, labels: tuple[str, ...]) -> dict[str, float]:
    """What Trainer logs at every evaluation: accuracy, macro recall and F1, and each class's recall."""
    logits = np.asarray(prediction.predictions)
    scores = Scores.of(np.asarray(prediction.label_ids), logits.argmax(axis=-1), len(labels))
    recalls = {f"recall_{label}": recall for label, recall in zip(labels, scores.recall, strict=True)}
    return {
        "accuracy": scores.accuracy,
        "macro_recall": scores.macro_recall,
        "macro_f1": scores.macro_f1,
        **recalls,
    }
