"""Scores of an image classifier: top-1, top-5, macro recall, size, relative time."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from transformers import PreTrainedModel

from training.errors import TrainingError
from training.food.networks import Classifier, logits_of
from training.food.photos import Photos
from training.food.preprocessing import Preprocessing, whole
from training.food.progress import track
from training.food.sources import UNLABELLED, listed, plain
from training.metrics import Scores

SCORED_BATCH = 64  # photos; bounds memory, not results
TIMED_RUNS = 50


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Fractions in 0..1; `macro_recall` weighs all classes that occur alike."""

    top1: float
    top5: float
    macro_recall: float

    @classmethod
    def of(cls, logits: Tensor, labels: Tensor) -> Accuracy:
        """Score logits [N, L] against labels [N]."""
        top = logits.topk(min(5, logits.shape[1])).indices
        scores = Scores.of(labels.numpy(), top[:, 0].numpy(), logits.shape[1])
        top5 = (top == labels[:, None]).any(dim=1).float().mean()
        recall = torch.tensor(scores.recall)[torch.unique(labels)].mean()
        return cls(scores.accuracy, float(top5), float(recall))


def predict(network: Callable[[Tensor], Tensor], see: Preprocessing, photos: Photos) -> Tensor:
    """Run `network` over whole photos, not augmented, and return its outputs [N, ...] on the CPU."""
    batches = torch.split(torch.arange(len(photos)), SCORED_BATCH)
    with torch.inference_mode():
        return torch.cat(
            [network(see(whole(photos.pixels(items)))) for items in track(batches, "predict", len(batches))]
        )


def score(model: PreTrainedModel, see: Preprocessing, photos: Photos) -> Accuracy:
    """Score a network in the precision of its weights."""
    device = next(model.parameters()).device
    answers = predict(lambda pixels: logits_of(model, pixels.to(device)).cpu(), see, photos)
    return Accuracy.of(answers, photos.labels)


def forward_seconds(classifier: Classifier) -> float:
    """Median time of one photo through the network, TIMED_RUNS times after a warm-up."""
    pixels = torch.zeros(1, 3, classifier.see.size, classifier.see.size)
    with torch.inference_mode():
        times = timeit.repeat(lambda: classifier.model(pixels), number=1, repeat=1 + TIMED_RUNS)
    return statistics.median(times[1:])


def aligned(photos: Photos, labels: tuple[str, ...], whose: str) -> Photos:
    """Return the photos with the ids that `whose` labels have in place of the data set's own.

    Names are compared without regard to case, hyphens and underscores. Raises TrainingError when a class of the data
    is none of the labels, or there is only one class.
    """
    ids = {plain(label).casefold(): index for index, label in enumerate(labels)}
    strange = [name for name in photos.classes if plain(name).casefold() not in ids]
    if strange:
        raise TrainingError(
            f"{len(strange)} classes of the data are none of the {len(labels)} labels of {whose} ({listed(strange)}): "
            "rename their folders, leave them out, or train another."
        )
    new = torch.tensor([ids[plain(name).casefold()] for name in photos.classes] + [UNLABELLED])
    return replace(photos, labels=new[photos.labels], classes=labels)
