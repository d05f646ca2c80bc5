"""What a checkpoint does to a picture before its network sees it: size, mean and deviation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from training.errors import TrainingError
from training.food.photos import RESAMPLE

# ImageNet's channel statistics on a 0-1 scale.
IMAGE_MEAN = (0.485, 0.456, 0.406)
IMAGE_STD = (0.229, 0.224, 0.225)
FILE = "preprocessor_config.json"


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """Pixels square, and the mean and deviation of each channel on a 0-1 scale."""

    size: int
    mean: tuple[float, ...] = IMAGE_MEAN
    std: tuple[float, ...] = IMAGE_STD

    def __call__(self, views: Tensor) -> Tensor:
        """Turn views [B, 3, H, W] in 0..1 into what the network sees, [B, 3, size, size]."""
        if views.shape[-1] != self.size:
            views = functional.interpolate(views, (self.size, self.size), mode="bicubic", antialias=True).clamp(0, 1)
        mean, std = views.new_tensor(self.mean), views.new_tensor(self.std)
        return (views - mean.view(3, 1, 1)) / std.view(3, 1, 1)

    def save(self, folder: Path) -> None:
        """Write preprocessor_config.json: a ViT processor that squashes the whole photo."""
        processor = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": self.size, "width": self.size},
            "resample": int(RESAMPLE),
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": self.mean,
            "image_std": self.std,
        }
        (folder / FILE).write_text(json.dumps(processor, indent=2) + "\n", encoding="utf-8")


def read_preprocessing(file: Path | None, model: PreTrainedModel) -> Preprocessing:
    """Read a checkpoint's preprocessor_config.json; without one, timm's pretrained_cfg, or the network's own size.

    Photos are squashed to squares, also where the file says to crop the middle: a training view is a crop already.
    Raises TrainingError when no size is to be found, or its sides differ.
    """
    config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file else {}
    timm = getattr(model.config, "pretrained_cfg", None) or {}
    sizes = [
        config.get("crop_size") if config.get("do_center_crop") else None,
        config.get("size"),
        {"height": timm["input_size"][1], "width": timm["input_size"][2]} if "input_size" in timm else None,
        getattr(model.config, "image_size", None),
    ]
    size = next((_square(value) for value in sizes if value), None)
    if size is None:
        raise TrainingError(f"Its image size is told by none of {FILE} and config.json: add image_size to config.json.")
    half = (0.5, 0.5, 0.5)  # what a ViT's processor takes where its file is silent
    fallback = {"image_mean": timm.get("mean", half if config else IMAGE_MEAN), "image_std": timm.get("std", half)}
    if not config and not timm:
        fallback["image_std"] = IMAGE_STD
    mean, std = (config.get(key) or fallback[key] for key in ("image_mean", "image_std"))
    return Preprocessing(size, tuple(mean), tuple(std))


def _square(size: int | list[int] | dict[str, int]) -> int:
    sides = list(size.values()) if isinstance(size, dict) else [size] if isinstance(size, int) else list(size)
    if len(set(sides)) != 1:
        raise TrainingError(f"Its pictures are not square ({sides}): choose a checkpoint whose are.")
    return int(sides[0])


def whole(photos: Tensor) -> Tensor:
    """Turn photos uint8 [B, 3, S, S] into views in 0..1 as they are."""
    return photos.to(torch.float32) / 255
