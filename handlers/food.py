"""Entry point of an image classification archive: photo in, dishes with scores and nutrition out."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from handlers.arrays import Float32Array, Uint8Array
from handlers.base import BatchHandler
from handlers.budget import Budget
from handlers.decoding import image_bytes_of
from handlers.engine import softmax
from handlers.image import least_side, limit_threads, open_image, resize
from handlers.meter import MAX_IMAGE_MEMORY
from handlers.metrics import PIXELS
from handlers.requests import Item
from handlers.saliency import saliency
from handlers.settings import SettingsError


class FoodHandler(BatchHandler[Uint8Array, Float32Array]):
    """Classifies photos and looks the dishes up in the nutrition table, where the archive has one."""

    # Pillow leaves Python's lock while it decodes and resizes.
    parallel_decode = True

    def load(self) -> None:
        """Open the network and the nutrition table."""
        if self.settings.image is None:
            raise SettingsError("serving.json has no image section: this archive is not an image classifier's")
        self.image = self.settings.image
        # All images that are decoded at once hold no more than a single one may.
        self.memory = Budget(MAX_IMAGE_MEMORY)
        self.engine = self.open_network()
        table = self.model_dir / "nutrition.json"
        self.nutrition = json.loads(table.read_text(encoding="utf-8")) if table.exists() else {}

    def decode(self, item: Item) -> Uint8Array:
        """Image file -> uint8[H, W, 3] pixels of the network's input size."""
        options = self.settings.options
        data = image_bytes_of(item, options.max_image_bytes)
        limit_threads(self.decode_threads)
        with self.memory.turn() as take:
            image = open_image(data, options.max_pixels, least_side(self.image), take, item.work)
            self.metrics.add(PIXELS, image.width * image.height)
            return resize(image, self.image, item.work)

    def predict(self, instances: Sequence[Uint8Array]) -> list[Float32Array]:
        """Each image's probabilities float32[labels]."""
        return list(softmax(self.logits(instances)))

    def logits(self, instances: Sequence[Uint8Array]) -> Float32Array:
        """Pixels of at least one image -> logits float32[B, labels], in batches of `image_batch` images."""
        step = max(1, self.settings.options.image_batch)
        parts = [instances[begin : begin + step] for begin in range(0, len(instances), step)]
        return np.concatenate([self.engine.run({"pixels": np.stack(part)}) for part in parts])

    def explain(self, instance: Uint8Array) -> dict[str, object]:
        """The answer of /predictions, and what each region of the image adds to the best dish's logit."""
        missing = np.divide(self.image.mean, self.image.rescale_factor)  # what the network reads as zero
        runs = self.settings.options.explain_runs
        return {
            "prediction": self.encode(self.predict([instance])[0]),
            "explanation": saliency(instance, self.settings.label, missing, self.logits, runs, self.check_time),
        }

    def encode(self, result: Float32Array) -> dict[str, object]:
        """The top-k dishes, best first; `nutrition` is null where the table does not know the dish."""
        labels = self.settings.labels
        best = result.argsort()[::-1][: self.settings.options.top_k]
        return {
            "dishes": [
                {
                    "label": labels[index],
                    "score": float(result[index]),
                    "nutrition": self.nutrition.get(labels[index]),
                }
                for index in best
            ]
        }
