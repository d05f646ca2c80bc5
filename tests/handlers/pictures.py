"""Pictures to test with."""

import numpy as np
from PIL import Image


def picture(width: int, height: int, seed: int = 5) -> Image.Image:
    """Noise, enlarged: smooth and sharp at once, and no two corners alike."""
    noise = np.random.default_rng(seed).integers(0, 256, (max(2, height // 3), max(2, width // 3), 3), np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BILINEAR)
