"""What the handlers make of an image file."""

from typing import Any

import numpy as np

from handlers.image import open_image

LIMIT = 1_000_000


def pixels(data: bytes) -> Any:
    """int[H, W, 3]"""
    image = open_image(data, LIMIT)
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


def row(data: bytes) -> list[tuple[int, ...]]:
    """The first line of pixels."""
    return [tuple(pixel) for pixel in pixels(data)[0].tolist()]
