"""What each region of an image adds to a label's logit: numbers on a grid, and a picture of them."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from handlers.arrays import Float32Array, Uint8Array
from handlers.explain import METHOD, BoolArray, Float64Array, explain, most_parts

# Cells along each side: 32 pixels of the usual 224.
GRID = 7
# Where the attribution is largest, colour covers this much of the image.
OPACITY = 0.65
FOR, AGAINST = (214, 39, 40), (31, 119, 180)


def saliency(
    pixels: Uint8Array,
    label: Callable[[int], str],
    missing: npt.ArrayLike,
    logits: Callable[[Sequence[Uint8Array]], Float32Array],
    runs: int,
    check_time: Callable[[], None],
) -> dict[str, Any]:
    """Explain the best label's logit of an image uint8[H, W, 3] by its regions, with about `runs` runs (see `explain`).

    A region that is left out has the colour `missing`, float[3] from 0 to 255. `attributions` are rows of cells from
    the top left; they add up to the logit less the baseline logit, that of an image of this colour alone. `overlay` is
    a PNG data URL of the image as the network sees it: red speaks for the label, blue against it.
    """
    height, width, _ = pixels.shape
    side = min(GRID, math.isqrt(most_parts(runs)), height, width)
    cells = _cells(height, width, side)
    blank = np.broadcast_to(np.rint(np.clip(missing, 0, 255)).astype(np.uint8), pixels.shape)

    def network(masks: BoolArray) -> Float32Array:
        return logits([np.where(mask[cells][:, :, None], pixels, blank) for mask in masks])

    explanation = explain(network, side * side, runs, check_time)
    best = int(explanation.logits.argmax())
    grid = explanation.shares[:, best].reshape(side, side)
    return {
        "method": METHOD,
        "runs": explanation.runs,
        "label": label(best),
        "logit": float(explanation.logits[best]),
        "baseline_logit": float(explanation.baseline[best]),
        "attributions": grid.tolist(),
        "overlay": "data:image/png;base64," + base64.b64encode(_png(overlay(pixels, grid))).decode("ascii"),
    }


def _cells(height: int, width: int, side: int) -> npt.NDArray[np.int64]:
    """int[H, W]: the number of the cell that each pixel lies in."""
    rows, columns = np.arange(height) * side // height, np.arange(width) * side // width
    return rows[:, None] * side + columns


def overlay(pixels: Uint8Array, grid: Float64Array) -> Image.Image:
    """The image in grey under a heat map of the grid's values, which is smooth between the cells' middles."""
    photo = Image.fromarray(pixels).convert("L").convert("RGB")
    largest = np.abs(grid).max() or 1.0
    heat = np.asarray(
        Image.fromarray((grid / largest).astype(np.float32)).resize(photo.size, Image.Resampling.BILINEAR)
    )
    colours = np.where(heat[:, :, None] > 0, FOR, AGAINST).astype(np.uint8)
    alpha = Image.fromarray((np.clip(np.abs(heat), 0, 1) * OPACITY * 255).astype(np.uint8))
    return Image.composite(Image.fromarray(colours), photo, alpha)


def _png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()
