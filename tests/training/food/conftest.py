"""Tiny random networks, and folders of photos that even they can tell apart."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ViTConfig, ViTForImageClassification

from training.food.networks import Classifier, labels_of
from training.food.photos import Photos
from training.food.preprocessing import Preprocessing

CLASSES = ("Apple", "Red Beet", "Sour Cream")
SIDE = 28  # pixels that the networks see
TINY = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "image_size": SIDE, "patch_size": 14}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make_vit() -> Callable[..., Classifier]:
    """Make a ViT of random weights: 2 layers unless told otherwise."""

    def make(*, seed: int = 6, labels: tuple[str, ...] = CLASSES, layers: int = 2, **changes: int) -> Classifier:
        torch.manual_seed(seed)
        config = ViTConfig(**TINY | {"num_hidden_layers": layers, "num_labels": len(labels)} | changes)
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: index for index, label in enumerate(labels)}
        model = ViTForImageClassification(config).eval()
        torch.nn.init.normal_(model.classifier.weight, std=0.5)
        return Classifier(model, labels_of(model), Preprocessing(config.image_size))

    return make


@pytest.fixture
def vit(make_vit: Callable[..., Classifier]) -> Classifier:
    return make_vit()


def write_photo(path: Path, label: int, seed: int) -> None:
    """Write noise, brighter for higher labels."""
    noise = np.random.default_rng(seed).integers(0, 60, (SIDE + 4, SIDE, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise + np.uint8(90 * label)).save(path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """8 photos of each class to train, 2 of each in val and test."""
    folder = tmp_path / "data"
    for split, count in (("train", 8), ("val", 2), ("test", 2)):
        for label, name in enumerate(CLASSES):
            for number in range(count):
                write_photo(folder / split / name.replace(" ", "-") / f"{number}.png", label, 100 * label + number)
    return folder


@pytest.fixture
def photos() -> Photos:
    """24 photos in memory, 36 pixels square, labels 0 1 2 0 1 2 ..."""
    labels = torch.arange(24) % 3
    noise = torch.randint(0, 60, (24, 3, 36, 36), generator=torch.Generator().manual_seed(9))
    return Photos((noise + 90 * labels.view(-1, 1, 1, 1)).to(torch.uint8), labels, CLASSES)
