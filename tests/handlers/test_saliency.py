"""Saliency maps of networks whose interest is known."""

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from PIL import Image

from handlers.arrays import Float32Array, Uint8Array
from handlers.saliency import GRID, saliency

LABELS = ("dark", "bright corner")
MISSING = (100, 100, 100)


def corner(instances: Sequence[Uint8Array]) -> Float32Array:
    """Logits of a network that looks at the top left quarter alone: how bright it is."""
    height, width, _ = instances[0].shape
    bright = np.stack([image[: height // 2, : width // 2].mean() for image in instances]) / 255
    return np.stack([-bright, bright], axis=1).astype(np.float32)


def explained(pixels: Uint8Array, runs: int = 20) -> Any:
    return saliency(pixels, LABELS.__getitem__, MISSING, corner, runs, lambda: None)


def test_only_the_region_that_the_network_looks_at_matters() -> None:
    white = np.full((40, 60, 3), 255, np.uint8)
    value = explained(white, 8)
    assert value["label"] == "bright corner"
    np.testing.assert_allclose(value["attributions"], np.array([[1 - 100 / 255, 0], [0, 0]]), atol=1e-6)
    assert (value["logit"], value["baseline_logit"]) == pytest.approx((1, 100 / 255))


def test_red_is_for_the_label_and_blue_against_it() -> None:
    white = np.full((40, 60, 3), 255, np.uint8)
    dark = np.full((40, 60, 3), 50, np.uint8)
    for pixels, warm in ((white, True), (dark, False)):
        value = explained(pixels, 8)
        data = base64.b64decode(value["overlay"].partition(",")[2])
        red, _, blue = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))[5, 5].astype(int)
        assert bool(red > blue) is warm
        far = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))[-1, -1]
        assert (far == pixels[-1, -1]).all(), "what does not matter is not coloured"


@pytest.mark.parametrize(
    ("shape", "runs", "side"), [((224, 224, 3), 256, GRID), ((3, 90, 3), 256, 3), ((9, 9, 3), 1, 1)]
)
def test_cells_are_as_many_as_runs_and_pixels_allow(shape: tuple[int, ...], runs: int, side: int) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, shape, np.uint8)
    value = explained(pixels, runs)
    assert np.shape(value["attributions"]) == (side, side)
    assert np.sum(value["attributions"]) == pytest.approx(value["logit"] - value["baseline_logit"])


def test_a_colour_that_no_pixel_has_is_the_nearest_one() -> None:
    grey = np.full((20, 20, 3), 100, np.uint8)
    for missing, brightness in ((-1, 0), (300, 1)):
        value = saliency(grey, LABELS.__getitem__, (missing,) * 3, corner, 20, lambda: None)
        assert abs(value["baseline_logit"]) == pytest.approx(brightness)


def test_an_image_of_nothing_but_the_missing_colour_is_left_as_it_is() -> None:
    value = explained(np.full((20, 20, 3), 100, np.uint8))
    assert not np.any(value["attributions"])
