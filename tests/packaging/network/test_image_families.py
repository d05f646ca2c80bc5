"""Families of image checkpoints and their processors: the handlers and the graph answer as transformers does."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import (
    AutoImageProcessor,
    BeitImageProcessorPil,
    ConvNextImageProcessorPil,
    DeiTImageProcessorPil,
    MobileViTImageProcessorPil,
    ViTImageProcessorPil,
)

from handlers.engine import Engine
from handlers.image import least_side, open_image, resize
from handlers.settings import ImageSettings
from marsmith.builder import build
from marsmith.errors import CheckpointError
from marsmith.ground import serving
from marsmith.network.choose import TOLERANCE, check_parity
from marsmith.network.export import GRAPH, Images, session
from marsmith.network.image_reference import ImageReference
from marsmith.network.processor import image_settings
from marsmith.recipe.checkpoint import resolve
from marsmith.recipe.recipe import Recipe
from tests.tiny import IMAGE_SETTINGS, IMAGE_SIDE, food_checkpoint, write_recipe

# Logits of different inputs differ by this at least, so that a mixed-up batch is no match by chance.
APART = 1000 * TOLERANCE
SQUARE = {"height": IMAGE_SIDE, "width": IMAGE_SIDE}
LARGER = {"height": IMAGE_SIDE + 4, "width": IMAGE_SIDE + 4}
# Each image family with the processor that its checkpoints have.
IMAGE_FAMILIES: dict[str, dict[str, Any]] = {
    "vit": {},
    "deit": {"model_type": "deit", "kind": DeiTImageProcessorPil, "processor": {"size": LARGER, "crop_size": SQUARE}},
    "deit-distilled": {
        "model_type": "deit",
        "architectures": ["DeiTForImageClassificationWithTeacher"],
        "kind": DeiTImageProcessorPil,
        "processor": {"size": LARGER, "crop_size": SQUARE},
    },
    "beit": {"model_type": "beit", "kind": BeitImageProcessorPil},
    "beit-relative": {
        "model_type": "beit",
        "kind": BeitImageProcessorPil,
        "use_relative_position_bias": True,
        "use_mean_pooling": False,
    },
    "swin": {"model_type": "swin"},
    "swinv2": {"model_type": "swinv2"},
    "convnext": {
        "model_type": "convnext",
        "kind": ConvNextImageProcessorPil,
        "processor": {"size": {"shortest_edge": 32}},
    },
    "convnextv2": {
        "model_type": "convnextv2",
        "kind": ConvNextImageProcessorPil,
        "processor": {"size": {"shortest_edge": 48}, "crop_pct": 0.95},
    },
}


def photo(width: int, height: int) -> bytes:
    coarse = np.random.default_rng(width).integers(0, 256, (4, 5, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC).save(stream, "PNG")
    return stream.getvalue()


PHOTOS = (photo(64, 48), photo(50, 90), photo(33, 31), photo(12, 40))


def pixels_of_handlers(settings: ImageSettings) -> np.ndarray:
    least = least_side(settings)
    return np.stack([resize(open_image(data, 10_000_000, least), settings) for data in PHOTOS])


def values_of_handlers(settings: serving.ImageSettings) -> np.ndarray:
    """What the network makes of the handlers' pixels before its first layer."""
    network = Images(Passing(), settings)
    values: np.ndarray = network(torch.from_numpy(pixels_of_handlers(ImageSettings(**settings.model_dump())))).numpy()
    return values


class Passing:
    """Stands for a model: its logits are what it is fed."""

    def __call__(self, pixel_values: torch.Tensor) -> Any:
        return SimpleNamespace(logits=pixel_values)


def values_of_transformers(directory: Path) -> np.ndarray:
    processor = AutoImageProcessor.from_pretrained(directory, backend="pil", trust_remote_code=False)
    images = [Image.open(io.BytesIO(data)) for data in PHOTOS]
    return np.stack([processor(images=image, return_tensors="np")["pixel_values"][0] for image in images])


@pytest.mark.build
@pytest.mark.parametrize("family", IMAGE_FAMILIES)
def test_handlers_answer_photos_as_each_family_does(tmp_path: Path, family: str) -> None:
    food_checkpoint(tmp_path, **IMAGE_FAMILIES[family])
    reference = ImageReference(resolve(Recipe.load(write_recipe(tmp_path, task="food"))))
    reference.export(tmp_path)
    assert check_parity(session(tmp_path / GRAPH), reference.cases()) < TOLERANCE
    with torch.inference_mode():
        expected = reference.model(pixel_values=torch.from_numpy(values_of_transformers(tmp_path))).logits.numpy()
    assert np.ptp(expected, axis=0).min() > APART
    pixels = pixels_of_handlers(ImageSettings(**reference.settings.model_dump()))
    assert abs(Engine(tmp_path / GRAPH, threads=1).run({"pixels": pixels}) - expected).max() < TOLERANCE


def test_every_image_family_here_is_tested() -> None:
    assert {str(family.get("model_type", "vit")) for family in IMAGE_FAMILIES.values()} == IMAGE_SETTINGS.keys()


@pytest.mark.build
def test_an_archive_of_an_image_family_answers_in_the_real_worker(tmp_path: Path) -> None:
    for number, data in enumerate(PHOTOS):
        (tmp_path / f"{number}.png").write_bytes(data)
    samples = [{"image": f"{number}.png"} for number in range(len(PHOTOS))]
    food_checkpoint(tmp_path, **IMAGE_FAMILIES["convnext"])
    built = build(write_recipe(tmp_path, task="food", samples=samples), tmp_path / "out")
    assert built.golden == len(PHOTOS)
    assert built.parity is not None
    assert built.parity < TOLERANCE


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (ConvNextImageProcessorPil, {"size": {"shortest_edge": 384}}),
        (ConvNextImageProcessorPil, {"size": {"shortest_edge": 224}}),
        (ConvNextImageProcessorPil, {"size": {"shortest_edge": 30}, "crop_pct": 0.9}),
        (BeitImageProcessorPil, {"size": LARGER, "do_center_crop": True, "crop_size": SQUARE}),
        (ViTImageProcessorPil, {"size": SQUARE, "do_normalize": False}),
        (
            ViTImageProcessorPil,
            {"size": SQUARE, "do_rescale": False, "image_mean": [7, 80, 9], "image_std": [1, 2, 30]},
        ),
        (ViTImageProcessorPil, {"size": {"height": 33, "width": 47}, "rescale_factor": 1 / 127.5}),
    ],
)
def test_processors_make_the_same_pixels_on_both_sides(tmp_path: Path, kind: Any, settings: dict[str, Any]) -> None:
    kind(**settings).save_pretrained(tmp_path)
    values = values_of_handlers(image_settings(tmp_path, "full"))
    assert values.dtype == np.float32
    assert abs(values - values_of_transformers(tmp_path)).max() < TOLERANCE


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        (MobileViTImageProcessorPil, {}, "it turns RGB into BGR"),
        (
            ConvNextImageProcessorPil,
            {"do_center_crop": True, "crop_size": SQUARE, "size": {"shortest_edge": 32}},
            "it crops twice",
        ),
        (ViTImageProcessorPil, {"do_resize": False}, "it does not resize"),
        (ViTImageProcessorPil, {"size": {"shortest_edge": 32}}, "images differ in size"),
        (ViTImageProcessorPil, {"size": {"longest_edge": 32}}, "a fixed size or shortest edge"),
    ],
)
def test_processors_that_the_handlers_do_not_know_are_refused(
    tmp_path: Path, kind: Any, settings: dict[str, Any], says: str
) -> None:
    kind(**settings).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=f"image processor .*Processor of .* cannot be used: .*{says}"):
        image_settings(tmp_path, "full")
