"""The baselines on TorchServe: B0, B1, B2 (benchmarks/baselines says how each is written), and no model at all."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.speed.agreement import Answer
from benchmarks.speed.checkpoints import labels
from benchmarks.speed.subjects import Task
from benchmarks.speed.torchserve import BASELINES, RawBody

TOKENIZER = "tokenizer.json,tokenizer_config.json"
TEXT_ONLY: tuple[Task, ...] = ("sentiment",)
IMAGES_ONLY: tuple[Task, ...] = ("food",)


class StockText(RawBody):
    """B0, with the example's own settings: one request a batch, and an archive of the default format."""

    name, title = "B0", "TorchServe, its Hugging Face example"
    tasks = TEXT_ONLY
    handler = "stock_handler.py"
    batch_size = 1

    def inputs(self) -> dict[str, str]:
        """The checkpoint's files, and the labels' names as the example has them."""
        checkpoint = self.job.checkpoint
        extra = [checkpoint / name for name in ("config.json", *TOKENIZER.split(","))]
        extra.append(index_to_name(checkpoint, self.home))
        return {"serialized-file": str(checkpoint / "model.safetensors"), "extra-files": ",".join(map(str, extra))}


class CarefulText(RawBody):
    """B1: batches, and weights that are stored instead of deflated."""

    name, title = "B1", "TorchServe, a careful Hugging Face handler"
    tasks = TEXT_ONLY
    handler = "careful_handler.py"
    archive_format = "zip-store"

    def inputs(self) -> dict[str, str]:
        """The checkpoint's files."""
        checkpoint = self.job.checkpoint
        extra = [checkpoint / name for name in ("config.json", *TOKENIZER.split(","))]
        return {"serialized-file": str(checkpoint / "model.safetensors"), "extra-files": ",".join(map(str, extra))}


class StockImages(RawBody):
    """B2: `image_classifier`, an eager model and its state dict, as TorchServe's documentation has it."""

    name, title = "B2", "TorchServe, its image_classifier"
    tasks = IMAGES_ONLY
    handler = "image_classifier"
    archive_format = "zip-store"

    def inputs(self) -> dict[str, str]:
        """The module that makes the network, its weights, its shape and the labels' names."""
        extra = [self.job.checkpoint / "config.json", index_to_name(self.job.checkpoint, self.home)]
        return {
            "model-file": str(BASELINES / "vision_model.py"),
            "serialized-file": str(self._state_dict()),
            "extra-files": ",".join(map(str, extra)),
        }

    def _state_dict(self) -> Path:
        import torch
        from transformers import ViTForImageClassification

        # The names of the loaded network's tensors, which are not those of the file.
        weights = ViTForImageClassification.from_pretrained(self.job.checkpoint, trust_remote_code=False).state_dict()
        path = self.home / "model.pt"
        torch.save({f"network.{name}": tensor for name, tensor in weights.items()}, path)
        return path


class Noop(RawBody):
    """What TorchServe itself costs."""

    name, title = "noop", "TorchServe without a model"
    handler = "noop_handler.py"
    answers = False

    def answer(self, raw: str) -> Answer:
        """No label."""
        return Answer(raw, {})


def index_to_name(checkpoint: Path, home: Path) -> Path:
    """The file by which TorchServe's handlers name labels."""
    path = home / "index_to_name.json"
    path.write_text(json.dumps({str(index): name for index, name in enumerate(labels(checkpoint))}), encoding="utf-8")
    return path
