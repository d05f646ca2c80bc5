"""A picture becomes the pixels that the checkpoint's own image processor resizes it to."""

from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers import BitImageProcessorPil, CLIPImageProcessorPil, ViTImageProcessorPil

from handlers.errors import TooLarge
from handlers.image import resize
from handlers.settings import ImageSettings
from tests.handlers.pictures import picture


def settings_of(processor: Any) -> ImageSettings:
    """The processor's settings, written down by hand rather than by marsmith."""
    edge, crop = processor.size.shortest_edge, processor.crop_size if processor.do_center_crop else None
    return ImageSettings(
        size=(edge, edge) if edge else (processor.size.height, processor.size.width),
        resample=int(processor.resample),
        rescale_factor=processor.rescale_factor,
        mean=tuple(processor.image_mean),
        std=tuple(processor.image_std),
        shortest_edge=edge,
        crop=(crop.height, crop.width) if crop else None,
    )


SIZES = [(32, 32), (31, 33), (640, 427), (33, 100), (101, 57), (7, 5), (1, 1), (1, 60), (60, 1), (500, 31)]


@pytest.mark.parametrize("resample", [Image.Resampling.BILINEAR, Image.Resampling.BICUBIC])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (ViTImageProcessorPil, {"size": {"height": 32, "width": 32}}),
        (ViTImageProcessorPil, {"size": {"height": 33, "width": 47}, "image_mean": [0.1, 0.5, 0.7]}),
        (BitImageProcessorPil, {"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}}),
        (CLIPImageProcessorPil, {"size": {"shortest_edge": 33}, "crop_size": {"height": 33, "width": 33}}),
        (BitImageProcessorPil, {"size": {"shortest_edge": 30}, "crop_size": {"height": 35, "width": 41}}),
        (BitImageProcessorPil, {"size": {"shortest_edge": 30}, "crop_size": {"height": 21, "width": 40}}),
    ],
)
@pytest.mark.parametrize("size", SIZES)
def test_pixels_are_those_of_transformers(
    kind: Any, options: dict[str, Any], resample: Image.Resampling, size: tuple[int, int]
) -> None:
    """pytorch/vision#2950"""
    processor = kind(**options, resample=resample)
    image, wanted = picture(*size), settings_of(processor)
    (expected,) = processor(image, do_rescale=False, do_normalize=False, return_tensors="np")["pixel_values"]
    found = resize(image, wanted)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, expected.transpose(1, 2, 0))


@pytest.mark.parametrize("size", [(100_000, 1), (1, 100_000)])
def test_a_sliver_is_refused_before_it_is_blown_up(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """100 KB of pixels would become 224 x 22 400 000."""

    def blow_up(self: Image.Image, *args: Any) -> None:
        raise AssertionError("resized")

    monkeypatch.setattr(Image.Image, "resize", blow_up)
    wanted = settings_of(CLIPImageProcessorPil())
    with pytest.raises(TooLarge, match="too long"):
        resize(Image.new("RGB", size), wanted)
