"""Entry point of an image classification archive: photo in, dishes with scores and nutrition out."""

from __future__ import annotations

import json
from collections.abc import Sequence

from handlers.base import BatchHandler
from handlers.decoding import image_bytes_of
from handlers.engine import Float32Array, open_network, softmax
from handlers.image import Uint8Array, limit_threads, normalise, open_image, resize
from handlers.requests import Item


class FoodHandler(BatchHandler[Uint8Array, Float32Array]):
    """Classifies photos and looks the dishes up in the nutrition table, where the archive has one."""

    def load(self) -> None:
        """Open the network and the nutrition table."""
        if self.settings.image is None:
            raise ValueError("serving.json has no image section: this archive is not an image classifier's")
        self.image = self.settings.image
        limit_threads(self.threads)
        self.engine = open_network(self.model_dir, self.threads)
        table = self.model_dir / "nutrition.json"
        self.nutrition = json.loads(table.read_text(encoding="utf-8")) if table.exists() else {}

    def decode(self, item: Item) -> Uint8Array:
        """Image file -> uint8[H, W, 3] pixels of the network's input size."""
        options = self.settings.options
        data = image_bytes_of(item, options.max_image_bytes)
        return resize(open_image(data, options.max_pixels), self.image)

    def predict(self, instances: Sequence[Uint8Array]) -> list[Float32Array]:
        """Each image's probabilities float32[labels]."""
        step = max(1, self.settings.options.image_batch)
        results: list[Float32Array] = []
        for begin in range(0, len(instances), step):
            pixels = normalise(instances[begin : begin + step], self.image)
            results += list(softmax(self.engine.run({"pixel_values": pixels})))
        return results

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
