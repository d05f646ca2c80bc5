"""Image classifiers as this package sees them: read, run, described, whatever their family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoModelForImageClassification, PreTrainedModel
from transformers.utils import cached_file
from transformers.utils.logging import disable_progress_bar

from training.errors import TrainingError
from training.food.preprocessing import FILE, Preprocessing, read_preprocessing

disable_progress_bar()  # of reading and writing weights: a second's work


@dataclass(frozen=True, slots=True)
class Classifier:
    """A network with its labels in id order and what it does to a picture."""

    model: PreTrainedModel
    labels: tuple[str, ...]
    see: Preprocessing

    @classmethod
    def read(cls, checkpoint: str) -> Classifier:
        """Read a checkpoint, local or of the hub, in fp32, eval. Raises TrainingError when it cannot be read."""
        try:
            model = AutoModelForImageClassification.from_pretrained(
                checkpoint, dtype=torch.float32, trust_remote_code=False
            )
            file = cached_file(checkpoint, FILE, _raise_exceptions_for_missing_entries=False)
            see = read_preprocessing(Path(file) if file else None, model)
        except TrainingError as error:
            raise TrainingError(f"The checkpoint {checkpoint} cannot be used. {error}") from None
        except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise TrainingError(f"The checkpoint {checkpoint} cannot be read: {reason}") from None
        return cls(model.eval(), labels_of(model), see)

    def frozen(self) -> Classifier:
        """Return itself, taking no gradient: a teacher."""
        self.model.requires_grad_(False)
        return self


def labels_of(model: PreTrainedModel) -> tuple[str, ...]:
    """Return the labels in id order."""
    names: dict[int, str] = model.config.id2label
    return tuple(names[index] for index in range(len(names)))


def set_labels(model: PreTrainedModel, labels: Sequence[str]) -> None:
    """Write `labels`, in id order, into the network's config."""
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {label: index for index, label in enumerate(labels)}


def heads_of(model: PreTrainedModel) -> dict[str, nn.Linear]:
    """Return the linear layers that answer with one value a label, by their path.

    Raises TrainingError when the network has none.
    """
    found = {name: part for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    heads = {name: part for name, part in found.items() if part.out_features == len(model.config.id2label)}
    named = {name: part for name, part in heads.items() if name.rpartition(".")[2].endswith(("classifier", "head"))}
    heads = named or dict(list(heads.items())[-1:])
    if not heads:
        raise TrainingError(f"{type(model).__name__} ends in no linear layer: choose another checkpoint.")
    return heads


def renew_heads(model: PreTrainedModel, labels: Sequence[str]) -> None:
    """Give the network heads of zeros for `labels`, in place."""
    for name, head in heads_of(model).items():
        new = nn.Linear(head.in_features, len(labels))
        nn.init.zeros_(new.weight)
        nn.init.zeros_(new.bias)
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, new)
    model.num_labels = len(labels)
    set_labels(model, labels)


def logits_of(model: nn.Module, pixels: Tensor) -> Tensor:
    """Return the answers [B, L] to normalised pixels [B, 3, S, S]."""
    answers: Tensor = model(pixels).logits
    return answers.float()


def features_of(model: PreTrainedModel, pixels: Tensor) -> Tensor:
    """Return what the first head reads, [B, C], of normalised pixels [B, 3, S, S]."""
    seen = list[Tensor]()
    head = next(iter(heads_of(model).values()))
    hook = head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        model(pixels)
    finally:
        hook.remove()
    return seen[0].float()


def layers_of(model: PreTrainedModel) -> nn.ModuleList | nn.Sequential | None:
    """Return the stack of encoder layers: the longest list of equal modules; None when there is none."""
    stacks = [
        part
        for part in model.modules()
        if isinstance(part, nn.ModuleList | nn.Sequential) and len(part) > 1 and len({type(item) for item in part}) == 1
    ]
    return max(stacks, key=lambda stack: sum(p.numel() for p in stack.parameters()), default=None)
