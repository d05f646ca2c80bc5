"""Random checkpoints of a real shape: as fast as trained ones, and with labels that differ between inputs."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.inputs import texts, thumbnails, words
from benchmarks.shapes import ImageShape, Shape, TextShape

SEED = 5
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
SENTIMENTS = ("negative", "neutral", "positive")
# Wider than the usual 0.02: with that a deep random network answers nearly the same to everything.
WEIGHT_SPREAD = 0.05
# Standard deviation of each logit over the inputs: labels that are clear, and none that always wins.
LOGIT_SPREAD = 2.0
# Words that each token of the vocabulary is learnt from, at most.
WORDS_A_TOKEN = 2
# Inputs that the spread is measured on.
CALIBRATION_TEXTS, CALIBRATION_PHOTOS = 32, 16
# What image_classifier of TorchServe does to every image, and so all others must.
RESIZED_EDGE = 256
IMAGE_MEAN, IMAGE_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def text_checkpoint(directory: Path, shape: TextShape) -> Path:
    """Save a RoBERTa sequence classifier and a byte-level BPE tokenizer of made-up words into `directory`."""
    import torch
    from transformers import RobertaConfig, RobertaForSequenceClassification, RobertaTokenizer

    tokenizer = RobertaTokenizer(**_byte_pairs(shape.vocabulary), model_max_length=shape.positions)
    tokenizer.save_pretrained(directory)
    config = RobertaConfig(
        vocab_size=shape.vocabulary,
        # RoBERTa counts positions from behind the padding token's id.
        max_position_embeddings=shape.positions + SPECIAL.index("<pad>") + 1,
        type_vocab_size=1,
        **_settings(shape, SENTIMENTS),
    )
    torch.manual_seed(SEED)
    model: Any = RobertaForSequenceClassification(config).eval()
    samples = texts(tokenizer.backend_tokenizer)[:CALIBRATION_TEXTS]
    _calibrate(model, model.classifier.out_proj, tokenizer(samples, padding=True, return_tensors="pt"))
    model.save_pretrained(directory)
    return directory


def image_checkpoint(directory: Path, shape: ImageShape) -> Path:
    """Save a DeiT (a plain ViT, as its published form) and its image processor into `directory`."""
    import torch
    from PIL import Image
    from transformers import DeiTImageProcessorPil, ViTConfig, ViTForImageClassification

    side = {"height": shape.side, "width": shape.side}
    processor: Any = DeiTImageProcessorPil(
        size={"shortest_edge": RESIZED_EDGE},
        crop_size=side,
        resample=Image.Resampling.BILINEAR,
        image_mean=list(IMAGE_MEAN),
        image_std=list(IMAGE_STD),
    )
    processor.save_pretrained(directory)
    dishes = [f"dish {index}" for index in range(shape.labels)]
    config = ViTConfig(image_size=shape.side, patch_size=shape.patch, **_settings(shape, dishes))
    torch.manual_seed(SEED)
    model: Any = ViTForImageClassification(config).eval()
    photos = [Image.open(io.BytesIO(photo)) for photo in thumbnails(CALIBRATION_PHOTOS)]
    _calibrate(model, model.classifier, processor(images=photos, return_tensors="pt"))
    model.save_pretrained(directory)
    return directory


def labels(checkpoint: Path) -> list[str]:
    """The labels of a checkpoint in the order of its logits."""
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    named: dict[str, str] = config["id2label"]
    return [named[str(index)] for index in range(len(named))]


def _settings(shape: Shape, names: Sequence[str]) -> dict[str, Any]:
    return {
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.intermediate,
        "initializer_range": WEIGHT_SPREAD,
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


def _calibrate(model: Any, head: Any, batch: Any) -> None:
    """Shift and scale the last layer until each logit has mean 0 and LOGIT_SPREAD over `batch`."""
    import torch

    with torch.no_grad():
        logits = model(**batch).logits
        scale = LOGIT_SPREAD / logits.std(dim=0)
        head.bias.copy_((head.bias - logits.mean(dim=0)) * scale)
        head.weight.mul_(scale[:, None])


def _byte_pairs(vocabulary: int) -> dict[str, Any]:
    """A byte-level BPE vocabulary of at most that many tokens, trained on the made-up words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer: Any = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # Frequent words come first: a small vocabulary has no room for the others.
    tokenizer.train_from_iterator((f" {word}" for word in words()[: WORDS_A_TOKEN * vocabulary]), trainer)
    state = json.loads(tokenizer.to_str())["model"]
    return {"vocab": state["vocab"], "merges": [tuple(merge) for merge in state["merges"]]}
