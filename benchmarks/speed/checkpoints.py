"""Random checkpoints of a real shape: as fast as trained ones, and as sure of labels that differ between inputs.

A trained network's features are mostly about its input, and rounding disturbs them little. A random one's are not, of
themselves: so here the first layer's attention carries much of the input to the token that is classified, the layers
after it add little each, and the last layer looks at the directions in which the features differ most.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.speed.inputs import texts, thumbnails, words
from benchmarks.speed.shapes import ImageShape, Shape, TextShape

SEED = 5
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
SENTIMENTS = ("negative", "neutral", "positive")
# By how much a linear layer multiplies the length of what it gets, about.
GAIN = 0.25
# How much larger the values and the output projection of the first layer's attention are.
FIRST_GAIN = 24.0
# Standard deviation of each logit over the inputs: labels that are clear, and none that always wins.
LOGIT_SPREAD = 4.0
# The directions of the features that the last layer looks at, at most; fewer labels need fewer.
COMPONENTS = 8
# Words that each token of the vocabulary is learnt from, at most.
WORDS_A_TOKEN = 2
# Inputs that the directions and the spread are measured on, not those that servers are asked about.
CALIBRATION_TEXTS, CALIBRATION_PHOTOS = 128, 64
CALIBRATION_SEED = 9
CALIBRATION_BATCH = 16
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
    attention = model.roberta.encoder.layer[0].attention
    _enlarge(attention.self.value, attention.output.dense)
    samples = sorted(texts(tokenizer.backend_tokenizer, CALIBRATION_TEXTS, CALIBRATION_SEED), key=len)
    batches = (tokenizer(batch, padding=True, return_tensors="pt") for batch in _batches(samples))
    _calibrate(model, model.classifier.out_proj, batches)
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
    attention = model.vit.layers[0].attention
    _enlarge(attention.v_proj, attention.o_proj)
    photos = [Image.open(io.BytesIO(photo)) for photo in thumbnails(CALIBRATION_PHOTOS, CALIBRATION_SEED)]
    _calibrate(model, model.classifier, (processor(images=one, return_tensors="pt") for one in _batches(photos)))
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
        "initializer_range": GAIN / math.sqrt(shape.hidden),
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


def _enlarge(*layers: Any) -> None:
    import torch

    with torch.no_grad():
        for layer in layers:
            layer.weight.mul_(FIRST_GAIN)


def _batches(samples: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (samples[begin : begin + CALIBRATION_BATCH] for begin in range(0, len(samples), CALIBRATION_BATCH))


def _calibrate(model: Any, head: Any, batches: Iterable[Any]) -> None:
    """Let the last layer look at the leading principal components of its own inputs over `batches`.

    Each label takes another mixture of them, of which the logit has mean 0 and standard deviation LOGIT_SPREAD.
    """
    import torch

    features: list[Any] = []
    hook = head.register_forward_hook(lambda _layer, inputs, _output: features.append(inputs[0]))
    with torch.no_grad():
        for batch in batches:
            model(**batch)
        hook.remove()
        seen = torch.cat(features)
        mean = seen.mean(dim=0)
        labels, width = head.weight.shape
        # The logits of few labels, being centred, have one direction less than there are labels.
        count = min(COMPONENTS, labels - 1, width)
        components = torch.linalg.svd(seen - mean, full_matrices=False).Vh[:count]
        mixtures = torch.linalg.qr(torch.randn(labels, labels)).Q[:, :count]
        weights = mixtures @ components
        weights *= LOGIT_SPREAD / ((seen - mean) @ weights.T).std(dim=0)[:, None]
        head.weight.copy_(weights)
        head.bias.copy_(-(weights @ mean))


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
