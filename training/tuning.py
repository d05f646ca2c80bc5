"""The training loop that teacher and student of the food model share, and their scores."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor
from transformers import ViTForImageClassification

from training.grocery import Photos, augment, normalise
from training.metrics import Scores

BATCH = 32  # photos
SCORED_BATCH = 64  # photos; bounds memory, not results
WEIGHT_DECAY, GRADIENT_NORM = 0.05, 1.0
WARM_UP = 0.1  # share of the steps
FOLDED = ("attention.o_proj.", "mlp.fc2.")  # the layers that to_classifier scales
TYPICAL_RMS = 0.014  # of their weights before

Network = Callable[[Tensor], Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]
console = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to train.

    `lr` is the head's peak rate; each layer learns `layer_decay` times as fast as the one above it (Clark
    et al., ICLR 2020). The first `frozen` layers, and with them the embeddings, keep their weights. `relative` makes
    the steps of folded layers follow the size of their weights, see `relative_step`.
    """

    epochs: int
    lr: float
    layer_decay: float
    frozen: int
    relative: bool
    seed: int


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Fractions in 0..1; `macro_recall` weighs all classes alike."""

    top1: float
    top5: float
    macro_recall: float

    @classmethod
    def of(cls, logits: Tensor, labels: Tensor) -> "Accuracy":
        """Score logits [N, L] against labels [N]."""
        top = logits.topk(5).indices
        scores = Scores.of(labels.numpy(), top[:, 0].numpy(), logits.shape[1])
        top5 = (top == labels[:, None]).any(dim=1).float().mean()
        return cls(scores.accuracy, float(top5), scores.macro_recall)


@torch.inference_mode()
def predict(network: Network, photos: Photos) -> Tensor:
    """Run `network` over whole photos, not augmented, and return its outputs [N, ...]."""
    batches = torch.split(photos.pixels, SCORED_BATCH)
    return torch.cat([network(normalise(batch)) for batch in track(batches, "predict", console=console)])


def ramp(step: int, steps: int) -> float:
    """Share of the peak learning rate: linear warm-up, then half a cosine down to 0."""
    warm_up = max(1, round(WARM_UP * steps))
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.5 + 0.5 * float(np.cos(np.pi * (step - warm_up) / max(1, steps - warm_up)))


def parameter_groups(model: ViTForImageClassification, plan: Plan) -> list[dict[str, object]]:
    """Freeze what `plan` freezes; return a group for each depth of the rest, with its own learning rate."""
    vit = model.vit
    tail = torch.nn.ModuleList([vit.layernorm, model.classifier])
    modules = [vit.embeddings, *vit.layers, tail]
    learning = modules[plan.frozen + 1 :] if plan.frozen else modules
    model.requires_grad_(False)
    for module in learning:
        module.requires_grad_(True)
    depth = len(learning) - 1
    rates = [plan.lr * plan.layer_decay ** (depth - index) for index in range(depth + 1)]
    return [
        {"params": [parameter], "lr": rate * (relative_step(name, module) if plan.relative else 1.0)}
        for module, rate in zip(learning, rates, strict=True)
        for name, parameter in module.named_parameters()
    ]


def relative_step(name: str, module: torch.nn.Module) -> float:
    """Return the factor on the rate of a layer's parameter that makes up for the LayerScale folded into it.

    Adam's steps do not depend on a gradient's size, so a folded layer would learn out of proportion to its weights,
    whose root mean square runs from 0.003 in the first layers to 0.1 in the last: steps follow it, as Adafactor's
    do (Shazeer and Stern 2018).
    """
    if not name.startswith(FOLDED):
        return 1.0
    weight = module.get_parameter(name.rpartition(".")[0] + ".weight").detach()
    return float(weight.square().mean().sqrt()) / TYPICAL_RMS


def batches(photos: Photos, size: int, plan: Plan) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield random views [B, 3, size, size] and labels [B]: every photo once an epoch, in random order."""
    generator = torch.Generator().manual_seed(plan.seed)
    for _ in range(plan.epochs):
        for index in torch.split(torch.randperm(len(photos), generator=generator), BATCH):
            yield augment(photos.pixels[index], size, generator), photos.labels[index]


def fit(
    model: ViTForImageClassification,
    train: Photos,
    val: Photos,
    loss: Loss,
    plan: Plan,
    save: Callable[[], None],
) -> None:
    """Train `model` in place on `loss(views, labels)`; score it on `val` and save it every epoch."""
    per_epoch = -(-len(train) // BATCH)
    groups = parameter_groups(model, plan)
    optimizer = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY, fused=True)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, partial(ramp, steps=plan.epochs * per_epoch))
    start, losses = time.monotonic(), list[float]()
    for step, (views, labels) in enumerate(batches(train, model.config.image_size, plan), start=1):
        step_loss = loss(views, labels)
        optimizer.zero_grad()
        step_loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_NORM)
        optimizer.step()
        rates.step()
        losses.append(step_loss.item())
        if step % per_epoch == 0:
            found = Accuracy.of(predict(lambda pixels: model(pixels).logits, val), val.labels)
            mean, minutes = np.mean(losses[-per_epoch:]), (time.monotonic() - start) / 60
            line = f"epoch {step // per_epoch}: loss {mean:.4f}, {minutes:.1f} min, val {found}"
            console.print(line, soft_wrap=True)
            save()
