"""The teacher: a frozen network that answers the views its student sees, and what the student pays for differing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from training.food.batches import Batch
from training.food.learner import Answers, last_states
from training.food.losses import feature_loss, hard_loss, soft_loss
from training.food.networks import Classifier


class Wanted(NamedTuple):
    """A teacher's logits [B, L], and features [B, T, C] of as many layers as were asked for."""

    logits: Tensor
    features: list[Tensor]


class Teacher:
    """Runs `classifier`, frozen and without dropout, with its own size, mean and deviation."""

    def __init__(self, classifier: Classifier, device: torch.device) -> None:
        self.classifier = classifier.frozen()
        self.classifier.model.to(device).eval()

    def ask(self, batch: Batch, *, features: int) -> Wanted:
        """Answer the views of a batch, mixed as they are, see `answer`."""
        return self.answer(batch.views, features=features)

    @torch.no_grad()
    def answer(self, views: Tensor, *, features: int = 0) -> Wanted:
        """Answer views [B, 3, S, S] in 0..1, with the features of the last so many layers."""
        out = self.classifier.model(self.classifier.see(views), output_hidden_states=bool(features))
        return Wanted(out.logits.float(), [state.float() for state in last_states(out, features)])


class Ask(Protocol):
    """A teacher, at work or remembered."""

    def __call__(self, batch: Batch, *, features: int) -> Wanted:
        """Answer the views of a batch, with the features of the last so many layers."""


@dataclass(frozen=True, slots=True)
class Distillation:
    """The loss of a student: `hard` of it from labels, the rest from the teacher, the features' on top.

    With DeiT's two heads, labels teach the class token's and the teacher the distillation token's (Touvron et al.,
    ICML 2021); without labels the teacher teaches both, because an answer is the mean of both.
    """

    ask: Ask
    temperature: float
    hard: float
    features: float = 0.0

    def __call__(self, answers: Answers, batch: Batch) -> Tensor:
        """Return the mean loss of a batch, whose mixed views the teacher sees as mixed."""
        wanted, features = self.ask(batch, features=len(answers.hidden))
        loss = (1 - self.hard) * soft_loss(answers.taught.float(), wanted, self.temperature)
        if self.hard:
            loss = loss + self.hard * hard_loss(answers.labelled.float(), batch.labels, batch.mixture)
        elif answers.labelled is not answers.taught:
            loss = (loss + soft_loss(answers.labelled.float(), wanted, self.temperature)) / 2
        if features:
            pairs = zip(answers.hidden, features, strict=True)
            distances = [feature_loss(mine.float(), theirs) for mine, theirs in pairs]
            loss = loss + self.features * torch.stack(distances).mean()
        return loss
