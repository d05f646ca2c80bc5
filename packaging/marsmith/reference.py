"""The checkpoint as Hugging Face runs it: what every export and every handler is measured against."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image, ImageOps
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.utils import logging as transformers_logging

from marsmith.checkpoint import Checkpoint
from marsmith.errors import CheckpointError, RecipeError
from marsmith.export import export_images, export_text
from marsmith.serving import ImageSettings, TextSettings

# Marsmith shows its own progress.
transformers_logging.disable_progress_bar()
transformers_logging.set_verbosity_error()

# Texts of many lengths, scripts and odd characters: token ids and positions that differ show up in the logits.
PROBE_TEXTS = (
    "ok",
    "What a great day at the beach with @user, thank you! 😀 http",
    "No. Just no… #fail",
    "Die Brücke öffnet um 9 Uhr / मुझे यह पसंद है / 我喜欢这个",
    "so tired of this weather but the coffee is really good " * 8,
)
PROBE_IMAGES = 3
PROBE_SEED = 20

Case = tuple[Mapping[str, np.ndarray], np.ndarray]


class TextReference:
    """A sequence classifier with its tokenizer. Raises CheckpointError when they do not load or do not fit."""

    def __init__(self, checkpoint: Checkpoint, normalise: Literal["none", "tweet"]) -> None:
        self.model = _load(AutoModelForSequenceClassification, checkpoint)
        self.tokenizer = _tokenizer(checkpoint.path)
        config = self.model.config
        # RoBERTa counts positions from the padding token's id on (transformers, create_position_ids_from_input_ids).
        first_position = config.pad_token_id + 1 if "roberta" in config.model_type else 0
        room = config.max_position_embeddings - first_position
        if len(self.tokenizer) > config.vocab_size:
            raise CheckpointError(
                f"The tokenizer knows {len(self.tokenizer)} tokens, the model {config.vocab_size}: "
                "they do not belong together. Save both from one training."
            )
        self.settings = TextSettings(
            normalise=normalise,
            max_tokens=min(room, self.tokenizer.model_max_length),
            first_position=first_position,
        )

    def preprocessing(self) -> dict[str, bytes]:
        """The files that the worker preprocesses with, by name."""
        fast = self.tokenizer.backend_tokenizer
        fast.no_padding()
        fast.no_truncation()
        return {"tokenizer.json": fast.to_str(pretty=True).encode("utf-8")}

    def probabilities(self, body: str | bytes) -> np.ndarray:
        """float64[labels] of one text."""
        text = _mask_tweet(str(body)) if self.settings.normalise == "tweet" else str(body)
        inputs = self.tokenizer(text, truncation=True, max_length=self.settings.max_tokens, return_tensors="pt")
        return _probabilities(self.model, inputs)

    def export(self, out: Path) -> None:
        """Write the packed graph into the directory `out`."""
        export_text(self.model, out)

    def cases(self) -> Iterator[Case]:
        """All probe texts in one packed batch, with the logits that the model gives each of them alone."""
        texts = [
            self.tokenizer(text, truncation=True, max_length=self.settings.max_tokens)["input_ids"]
            for text in PROBE_TEXTS
        ]
        lengths = [len(ids) for ids in texts]
        feeds = {
            "input_ids": np.concatenate(texts).astype(np.int64),
            "position_ids": np.concatenate([np.arange(n) for n in lengths]) + self.settings.first_position,
            "segment_ids": np.repeat(np.arange(len(texts)), lengths),
            "starts": np.cumsum([0, *lengths[:-1]]),
        }
        with torch.inference_mode():
            logits = [self.model(input_ids=torch.tensor([ids])).logits.numpy() for ids in texts]
        yield feeds, np.concatenate(logits)


class ImageReference:
    """An image classifier with its processor. Raises CheckpointError when they do not load or do not fit."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.model = _load(AutoModelForImageClassification, checkpoint)
        self.settings = image_settings(checkpoint.path)
        self._processor = AutoImageProcessor.from_pretrained(checkpoint.path, local_files_only=True, backend="pil")

    def probabilities(self, body: str | bytes) -> np.ndarray:
        """float64[labels] of one image file. Raises RecipeError when it is none."""
        try:
            with Image.open(io.BytesIO(body if isinstance(body, bytes) else body.encode())) as image:
                upright = _on_white(ImageOps.exif_transpose(image))
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise RecipeError(
                f"A sample of the recipe is no image that Pillow can read: {_first_line(error)}."
            ) from None
        return _probabilities(self.model, self._processor(images=upright, return_tensors="pt"))

    def preprocessing(self) -> dict[str, bytes]:
        """Nothing: serving.json says how an image is prepared."""
        return {}

    def export(self, out: Path) -> None:
        """Write the graph into the directory `out`."""
        export_images(self.model, self.settings.crop or self.settings.size, out)

    def cases(self) -> Iterator[Case]:
        """Images of noise, one at a time and together."""
        height, width = self.settings.crop or self.settings.size
        shape = (PROBE_IMAGES, 3, height, width)
        images = np.random.default_rng(PROBE_SEED).standard_normal(shape).astype(np.float32)
        for pixels in (images, images[:1]):
            with torch.inference_mode():
                yield (
                    {"pixel_values": pixels},
                    self.model(pixel_values=torch.from_numpy(pixels)).logits.numpy(),
                )


def _probabilities(model: Any, inputs: Mapping[str, Any]) -> np.ndarray:
    with torch.inference_mode():
        (logits,) = model(**inputs).logits
    probabilities: np.ndarray = logits.double().softmax(-1).numpy()
    return probabilities


def _mask_tweet(text: str) -> str:
    """Users and links masked by the rule on the model card of cardiffnlp/twitter-roberta-base-sentiment-latest.

    The handlers have their own; golden requests hold the two together.
    """
    words = ("@user" if word.startswith("@") and len(word) > 1 else word for word in text.split(" "))
    return " ".join("http" if word.startswith("http") else word for word in words)


def _on_white(image: Image.Image) -> Image.Image:
    """An RGB image, transparency flattened on white."""
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")


def image_settings(path: Path) -> ImageSettings:
    """What preprocessor_config.json asks for, with its class's defaults. Raises CheckpointError."""
    try:
        processor = AutoImageProcessor.from_pretrained(path, local_files_only=True, backend="pil")
        size, crop = processor.size, processor.crop_size if processor.do_center_crop else None
        if not processor.do_resize or not (size.shortest_edge or (size.height and size.width)):
            raise ValueError("it does not resize to a fixed size or shortest edge")
        if size.shortest_edge and crop is None:
            raise ValueError("it resizes the shortest edge but does not crop, so images differ in size")
        normalised = processor.do_normalize
        edge = size.shortest_edge
        return ImageSettings(
            size=(edge, edge) if edge else (size.height, size.width),
            resample=int(processor.resample),
            rescale_factor=processor.rescale_factor if processor.do_rescale else 1.0,
            mean=tuple(processor.image_mean) if normalised else (0.0, 0.0, 0.0),
            std=tuple(processor.image_std) if normalised else (1.0, 1.0, 1.0),
            shortest_edge=edge,
            crop=(crop.height, crop.width) if crop else None,
        )
    except Exception as error:  # transformers raises nearly every type here
        raise CheckpointError(f"The image processor of {path} cannot be used: {_first_line(error)}.") from None


def _tokenizer(path: Path) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True, use_fast=True)
        tokenizer.backend_tokenizer.to_str()
    except Exception as error:  # transformers raises nearly every type here
        raise CheckpointError(
            f"The tokenizer of {path} cannot be used: {_first_line(error)}. Save it with the model as tokenizer.json."
        ) from None
    return tokenizer


def _load(kind: Any, checkpoint: Checkpoint) -> Any:
    """The model in fp32, with every weight from the checkpoint and a label for every logit."""
    try:
        model, info = kind.from_pretrained(
            checkpoint.path, dtype=torch.float32, local_files_only=True, output_loading_info=True
        )
    except Exception as error:  # transformers raises nearly every type here
        raise CheckpointError(f"The model of {checkpoint.path} cannot be loaded: {_first_line(error)}.") from None
    if info["missing_keys"] or info["mismatched_keys"]:
        names = sorted(str(key) for key in info["missing_keys"] or info["mismatched_keys"])
        raise CheckpointError(
            f"The checkpoint {checkpoint.path} lacks weights ({', '.join(names[:3])}, …), which would be random: "
            "fine-tune it for this task, or name the checkpoint that was."
        )
    if model.config.num_labels != len(checkpoint.labels):
        raise CheckpointError(
            f"The model has {model.config.num_labels} logits, but there are {len(checkpoint.labels)} labels: "
            "name them all in the recipe."
        )
    return model.eval()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
