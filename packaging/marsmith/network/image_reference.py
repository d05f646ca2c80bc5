"""An image checkpoint as Hugging Face runs it: what every export and every handler is measured against."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoModelForImageClassification

from marsmith.ground.serving import Decode
from marsmith.network.export import Images, export_images
from marsmith.network.forward import logits, probabilities
from marsmith.network.picture import read_picture
from marsmith.network.pretrained import guarded, load_image_processor, load_model
from marsmith.network.processor import class_name, image_settings
from marsmith.network.program import record
from marsmith.network.reference import Case
from marsmith.recipe.checkpoint import Checkpoint

PROBE_IMAGES = 3
PROBE_SEED = 20


class ImageReference:
    """An image classifier with its processor. Raises CheckpointError when they do not load or do not fit."""

    def __init__(self, checkpoint: Checkpoint, decode: Decode = "scaled") -> None:
        self.model = load_model(AutoModelForImageClassification, checkpoint)
        self.path = checkpoint.path
        self.settings = image_settings(checkpoint.path, decode)
        self.processor = load_image_processor(checkpoint.path)

    def probabilities(self, body: str | bytes) -> np.ndarray:
        """float64[labels] of one image file. Raises RecipeError when it is none."""
        return probabilities(self.model, self.prepared(body))

    def feeds(self, body: str | bytes) -> dict[str, np.ndarray]:
        """The network's inputs for one image file. Raises RecipeError when it is none."""
        values = self.prepared(body)["pixel_values"].numpy()
        return {"pixels": self._levels(values[0]).transpose(1, 2, 0)[None]}

    def prepared(self, body: str | bytes) -> dict[str, torch.Tensor]:
        """All that the processor makes of an image file, by name. Raises RecipeError when it is none."""
        settings = self.settings
        resized_to = (settings.shortest_edge or max(settings.size)) if settings.scaled_decode else None
        picture, colours = read_picture(body if isinstance(body, bytes) else body.encode(), resized_to)
        if colours is None:
            return self._process([picture])
        # The profile is applied where few pixels are left.
        resized = self._resized(picture.convert(colours.input_mode))
        return self._process([colours.apply(resized)], do_resize=False)

    def _process(self, pictures: list[Image.Image], **steps: bool) -> dict[str, torch.Tensor]:
        with guarded(f"The image processor {class_name(self.processor)} of {self.path} cannot be used"):
            return dict(self.processor(images=pictures, return_tensors="pt", **steps))

    def _resized(self, picture: Image.Image) -> Image.Image:
        """What the processor resizes to, in the picture's own mode; band by band, for the processor knows no CMYK."""
        bands = [
            self._levels(self._process([Image.merge("RGB", (band,) * 3)], do_center_crop=False)["pixel_values"][0])[0]
            for band in picture.split()
        ]
        return Image.merge(picture.mode, [Image.fromarray(band) for band in bands])

    def _levels(self, values: Any) -> np.ndarray:
        """The pixels uint8[3, H, W] that became these values: the processor's last steps taken back."""
        mean, std = (np.reshape(one, (3, 1, 1)) for one in (self.settings.mean, self.settings.std))
        levels = (np.asarray(values, np.float64) * std + mean) / self.settings.rescale_factor
        pixels: np.ndarray = levels.round().clip(0, 255).astype(np.uint8)
        return pixels

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
            inputs = self._process(images, do_resize=False, do_center_crop=False)
            yield {"pixels": pixels}, logits(self.model, inputs)
