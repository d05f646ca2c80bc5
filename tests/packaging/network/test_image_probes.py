"""The pixels that the handlers feed the network are those of the checkpoint's own image processor, or it is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers import (
    BitImageProcessorPil,
    CLIPImageProcessorPil,
    DonutImageProcessorPil,
    DPTImageProcessorPil,
    EfficientNetImageProcessorPil,
    LevitImageProcessorPil,
    PerceiverImageProcessorPil,
    PoolFormerImageProcessorPil,
    SegformerImageProcessorPil,
    Siglip2ImageProcessorPil,
    ViTImageProcessorPil,
)

from handlers.prepare import prepare
from marsmith.builder import build
from marsmith.errors import CheckpointError
from marsmith.network.image_probes import check_images
from marsmith.network.image_reference import ImageReference
from marsmith.network.pretrained import load_image_processor
from marsmith.network.processor import image_settings
from marsmith.recipe.checkpoint import resolve
from marsmith.recipe.recipe import Recipe
from tests.packaging.preprocessing import asking
from tests.tiny import IMAGE_SIDE, food_checkpoint, write_recipe

EDGE = {"shortest_edge": 32}
SQUARE = {"height": 32, "width": 32}


def image_reference(directory: Path) -> ImageReference:
    """A reference of the processor alone."""
    reference = ImageReference.__new__(ImageReference)
    reference.path = directory
    reference.settings = image_settings(directory, "scaled")
    reference.processor = load_image_processor(directory)
    return reference


def check_processor(directory: Path) -> None:
    reference = image_reference(directory)
    check_images(reference, asking(directory / "model", reference.settings))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (BitImageProcessorPil, {"size": EDGE, "crop_size": SQUARE}),
        (CLIPImageProcessorPil, {"size": EDGE, "crop_size": {"height": 28, "width": 40}}),
        (EfficientNetImageProcessorPil, {"size": SQUARE}),
        (EfficientNetImageProcessorPil, {"size": SQUARE, "rescale_offset": True, "include_top": False}),
        (EfficientNetImageProcessorPil, {"size": SQUARE, "do_normalize": False, "rescale_factor": 1 / 127.5}),
        (LevitImageProcessorPil, {"size": EDGE, "crop_size": SQUARE}),
        (LevitImageProcessorPil, {"size": {"height": 40, "width": 33}, "crop_size": SQUARE}),
        (PoolFormerImageProcessorPil, {"size": EDGE, "crop_size": SQUARE}),
        (PoolFormerImageProcessorPil, {"size": SQUARE, "crop_size": SQUARE, "crop_pct": 0.95}),
        (PoolFormerImageProcessorPil, {"size": SQUARE, "crop_size": SQUARE, "crop_pct": None}),
        (SegformerImageProcessorPil, {"size": SQUARE, "do_reduce_labels": True}),
        (DPTImageProcessorPil, {"size": SQUARE}),
        (ViTImageProcessorPil, {"size": SQUARE, "resample": int(Image.Resampling.LANCZOS)}),
    ],
)
def test_processors_with_rules_of_their_own_make_the_same_pixels(
    tmp_path: Path, kind: Any, settings: dict[str, Any]
) -> None:
    kind(**settings).save_pretrained(tmp_path)
    check_processor(tmp_path)


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        (
            PerceiverImageProcessorPil,
            {},
            "PerceiverImageProcessor .*of a landscape picture, it makes values of the shape",
        ),
        (DonutImageProcessorPil, {"size": SQUARE}, "DonutImageProcessor .*its values and the handler's differ"),
        (DPTImageProcessorPil, {"size": SQUARE, "keep_aspect_ratio": True}, "DPTImageProcessor .*values of the shape"),
        (
            PoolFormerImageProcessorPil,
            {"size": {"height": 20, "width": 33}},
            "PoolFormerImageProcessor .*two edges at once",
        ),
        (Siglip2ImageProcessorPil, {}, "Siglip2ImageProcessor .*it has no size"),
        (
            ViTImageProcessorPil,
            {"size": {"height": 10**6, "width": 32}},
            "ViTImageProcessor .*it resizes or crops to 1000000",
        ),
        (ViTImageProcessorPil, {"size": SQUARE, "image_std": [0.5, 0, 0.5]}, "image_std is 0"),
        (ViTImageProcessorPil, {"size": SQUARE, "image_mean": [0.5]}, "cannot use its values of mean"),
        (
            CLIPImageProcessorPil,
            {"size": EDGE, "crop_size": {"shortest_edge": 32}},
            "something other than a height and a",
        ),
        (
            CLIPImageProcessorPil,
            {"size": {"shortest_edge": 32, "longest_edge": 40}, "crop_size": SQUARE},
            "CLIPImageProcessor .*of a sliver, its values and the handler's differ",
        ),
    ],
)
def test_processors_that_settings_cannot_say_are_refused_by_their_name(
    tmp_path: Path, kind: Any, settings: dict[str, Any], says: str
) -> None:
    kind(**settings).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=says):
        check_processor(tmp_path)


def test_int8_is_calibrated_on_the_pixels_of_the_handlers(tmp_path: Path) -> None:
    """EfficientNet's second normalisation once stayed in what the quantised network was measured on."""
    food_checkpoint(tmp_path, kind=EfficientNetImageProcessorPil)
    reference = ImageReference(resolve(Recipe.load(write_recipe(tmp_path, task="food"))))
    noise = np.random.default_rng(3).integers(0, 256, (IMAGE_SIDE, IMAGE_SIDE, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "own size.png")
    assert np.array_equal(reference.feeds((tmp_path / "own size.png").read_bytes())["pixels"][0], noise)


def test_a_network_that_cannot_read_its_own_processors_images_is_one_sentence(tmp_path: Path) -> None:
    food_checkpoint(tmp_path, processor={"size": {"height": 48, "width": 48}})
    with pytest.raises(CheckpointError, match=r"network cannot read what its own .*: .*48.*32.*Save the model with"):
        build(write_recipe(tmp_path, task="food"), tmp_path / "out")


def test_what_the_handlers_refuse_is_an_answer(tmp_path: Path) -> None:
    ViTImageProcessorPil(size=SQUARE).save_pretrained(tmp_path)
    asking(tmp_path / "model", image_settings(tmp_path, "full"))
    (refused,) = prepare(tmp_path / "model", {"images": ["AAAA"]})
    assert "not a whole image file" in refused["error"]
