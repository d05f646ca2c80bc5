"""The checkpoint as Hugging Face runs it: what every export and every handler is measured against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER
from transformers.utils import logging as transformers_logging

from marsmith.checkpoint import Checkpoint, text_layout
from marsmith.errors import CheckpointError, RecipeError, first_line
from marsmith.export import Images, export_images, export_text, text_network
from marsmith.feeds import feeds
from marsmith.network import Case
from marsmith.picture import read_picture
from marsmith.processor import image_settings
from marsmith.program import record
from marsmith.serving import Decode, LongText, TextSettings

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
# Windows of one text, at most: the default of the handlers' option of that name.
MAX_WINDOWS = 32


class TextReference:
    """A sequence classifier with its tokenizer. Raises CheckpointError when they do not load or do not fit."""

    def __init__(
        self, checkpoint: Checkpoint, normalise: Literal["none", "tweet"], long_text: LongText = "truncate"
    ) -> None:
        self.model = _load(AutoModelForSequenceClassification, checkpoint)
        self.tokenizer = _tokenizer(checkpoint.path)
        config = self.model.config
        # RoBERTa and its like count positions from behind the padding token's id
        # (transformers, create_position_ids_from_input_ids).
        padding = getattr(getattr(self.model.base_model, "embeddings", None), "padding_idx", None)
        first_position = 0 if padding is None else padding + 1
        # Where positions are relative, the tokenizer alone says how far texts went in training.
        positions = getattr(config, "max_position_embeddings", 0)
        positions = positions if positions > 0 else self.tokenizer.model_max_length
        if positions >= VERY_LARGE_INTEGER:
            raise CheckpointError(
                f"Neither the config.json of this {config.model_type} model (max_position_embeddings) nor its "
                "tokenizer_config.json (model_max_length) says how many tokens it reads: write it there."
            )
        if len(self.tokenizer) > config.vocab_size:
            raise CheckpointError(
                f"The tokenizer knows {len(self.tokenizer)} tokens, the model {config.vocab_size}: "
                "they do not belong together. Save both from one training."
            )
        self.settings = TextSettings(
            normalise=normalise,
            max_tokens=min(positions - first_position, self.tokenizer.model_max_length),
            first_position=first_position,
            layout=text_layout(checkpoint.config),
            pad_token=config.pad_token_id or 0,
            mask_token=_first(self.tokenizer.mask_token_id, self.tokenizer.unk_token_id),
            long_text=long_text,
        )

    def preprocessing(self) -> dict[str, bytes]:
        """The files that the worker preprocesses with, by name."""
        fast = self.tokenizer.backend_tokenizer
        fast.no_padding()
        fast.no_truncation()
        return {"tokenizer.json": fast.to_str(pretty=True).encode("utf-8")}

    def probabilities(self, body: str | bytes) -> np.ndarray:
        """float64[labels] of one text. Raises RecipeError for one that the archive will refuse as too long.

        Of a text in several windows it is the mean, weighted by the tokens that each has beside the special ones.
        """
        windows = self._windows(body)
        limit, long_text = self.settings.max_tokens, self.settings.long_text
        if long_text == "error" and len(windows) > 1:
            raise RecipeError(
                f"A sample of the recipe has more than the {limit} tokens that the model reads, which long_text "
                '"error" refuses: give shorter samples.'
            )
        windows = windows[: MAX_WINDOWS if long_text == "window" else 1]
        scores = [_probabilities(self.model, {"input_ids": torch.tensor([ids])}) for ids in windows]
        special = self.tokenizer.num_special_tokens_to_add()
        weights = [len(ids) - special for ids in windows]
        return scores[0] if len(scores) == 1 else np.average(scores, axis=0, weights=weights)

    def _windows(self, body: str | bytes) -> list[list[int]]:
        """Token ids of one text, as many at once as the model reads."""
        text = _mask_tweet(str(body)) if self.settings.normalise == "tweet" else str(body)
        limit = self.settings.max_tokens
        ids: list[list[int]] = self.tokenizer(text, truncation=True, max_length=limit, return_overflowing_tokens=True)[
            "input_ids"
        ]
        return ids

    def feeds(self, body: str | bytes) -> dict[str, np.ndarray]:
        """The network's inputs for one text, of a long one as far as the model reads at once."""
        return feeds([self._windows(body)[0]], self.settings)

    def export(self, out: Path) -> None:
        """Write the ONNX graph into the directory `out`."""
        export_text(self.model, self.settings.layout, out)

    def record(self, out: Path) -> None:
        """Write the PyTorch program into the directory `out`, for one text at a time.

        What a network decides by the texts of its batch, as BART does, is fixed in a recording.
        """
        self.settings = self.settings.model_copy(update={"layout": "single"})
        example, _ = next(self.cases())
        record(text_network(self.model, self.settings.layout), example, out)

    def cases(self) -> Iterator[Case]:
        """All probe texts in one batch, then the first alone, with the logits that the model gives each by itself.

        Each alone where the network takes one text at a time, and the longest that it reads: what it decides by a
        text's length, as BigBird does, a recording does not.
        """
        limit, single = self.settings.max_tokens, self.settings.layout == "single"
        probes = (*PROBE_TEXTS, PROBE_TEXTS[-1] * limit) if single else PROBE_TEXTS
        texts = [self.tokenizer(text, truncation=True, max_length=limit)["input_ids"] for text in probes]
        with torch.inference_mode():
            logits = [self.model(input_ids=torch.tensor([ids])).logits.numpy() for ids in texts]
        if not single:
            yield feeds(texts, self.settings), np.concatenate(logits)
            texts, logits = texts[:1], logits[:1]
        for ids, expected in zip(texts, logits, strict=True):
            yield feeds([ids], self.settings), expected


class ImageReference:
    """An image classifier with its processor. Raises CheckpointError when they do not load or do not fit."""

    def __init__(self, checkpoint: Checkpoint, decode: Decode = "scaled") -> None:
        self.model = _load(AutoModelForImageClassification, checkpoint)
        self.settings = image_settings(checkpoint.path, decode)
        self._processor = AutoImageProcessor.from_pretrained(checkpoint.path, local_files_only=True, backend="pil")

    def probabilities(self, body: str | bytes) -> np.ndarray:
        """float64[labels] of one image file. Raises RecipeError when it is none."""
        return _probabilities(self.model, self._prepared(body))

    def feeds(self, body: str | bytes) -> dict[str, np.ndarray]:
        """The network's inputs for one image file. Raises RecipeError when it is none."""
        pixels = self._prepared(body, do_rescale=False, do_normalize=False)["pixel_values"].numpy()
        return {"pixels": pixels.transpose(0, 2, 3, 1).astype(np.uint8)}

    def _prepared(self, body: str | bytes, **steps: bool) -> Any:
        """What the processor makes of an image file."""
        settings = self.settings
        resized_to = (settings.shortest_edge or max(settings.size)) if settings.scaled_decode else None
        picture, colours = read_picture(body if isinstance(body, bytes) else body.encode(), resized_to)
        if colours is None:
            return self._processor(images=picture, return_tensors="pt", **steps)
        # The profile is applied where few pixels are left.
        resized = self._resized(picture.convert(colours.input_mode))
        srgb = colours.apply(resized)
        return self._processor(images=srgb, do_resize=False, return_tensors="pt", **steps)

    def _resized(self, picture: Image.Image) -> Image.Image:
        """What the processor resizes to, in the picture's own mode; band by band, for the processor knows no CMYK."""
        steps = {"do_center_crop": False, "do_rescale": False, "do_normalize": False}
        bands = [
            self._processor(images=Image.merge("RGB", (band,) * 3), return_tensors="np", **steps)["pixel_values"][0, 0]
            for band in picture.split()
        ]
        return Image.merge(picture.mode, [Image.fromarray(band.astype(np.uint8)) for band in bands])

    def preprocessing(self) -> dict[str, bytes]:
        """Nothing: serving.json says how an image is prepared."""
        return {}

    def export(self, out: Path) -> None:
        """Write the ONNX graph into the directory `out`."""
        export_images(self.model, self.settings, out)

    def record(self, out: Path) -> None:
        """Write the PyTorch program into the directory `out`."""
        example, _ = next(self.cases())
        record(Images(self.model, self.settings), example, out)

    def cases(self) -> Iterator[Case]:
        """Images of noise, together and the first alone, with the logits of what the processor makes of them."""
        height, width = self.settings.crop or self.settings.size
        noise = np.random.default_rng(PROBE_SEED).integers(0, 256, (PROBE_IMAGES, height, width, 3), np.uint8)
        for pixels in (noise, noise[:1]):
            images = [Image.fromarray(one) for one in pixels]
            inputs = self._processor(images=images, do_resize=False, do_center_crop=False, return_tensors="pt")
            with torch.inference_mode():
                yield {"pixels": pixels}, self.model(**inputs).logits.numpy()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums in the same order whatever the number of cores, so that two machines record the same digits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _probabilities(model: Any, inputs: Mapping[str, Any]) -> np.ndarray:
    with _one_thread(), torch.inference_mode():
        (logits,) = model(**inputs).logits
    probabilities: np.ndarray = logits.double().softmax(-1).numpy()
    return probabilities


def _mask_tweet(text: str) -> str:
    """Users and links masked by the rule on the model card of cardiffnlp/twitter-roberta-base-sentiment-latest.

    The handlers have their own; golden requests hold the two together.
    """
    words = ("@user" if word.startswith("@") and len(word) > 1 else word for word in text.split(" "))
    return " ".join("http" if word.startswith("http") else word for word in words)


def _first(*ids: int | None) -> int | None:
    """The first that there is."""
    return next((one for one in ids if one is not None), None)


def _tokenizer(path: Path) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True, use_fast=True)
        tokenizer.backend_tokenizer.to_str()
    except Exception as error:  # transformers raises nearly every type here
        raise CheckpointError(
            f"The tokenizer of {path} cannot be used: {first_line(error)}. Save it with the model as tokenizer.json."
        ) from None
    return tokenizer


def _load(kind: Any, checkpoint: Checkpoint) -> Any:
    """The model in fp32, with every weight from the checkpoint and a label for every logit."""
    try:
        model, info = kind.from_pretrained(
            checkpoint.path, dtype=torch.float32, local_files_only=True, output_loading_info=True
        )
    except Exception as error:  # transformers raises nearly every type here
        raise CheckpointError(f"The model of {checkpoint.path} cannot be loaded: {first_line(error)}.") from None
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
