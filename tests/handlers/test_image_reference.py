"""The handler sees a picture as the reference does that golden requests are recorded by."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from handlers.food import FoodHandler
from marsmith.builder import build
from marsmith.mar.reader import extract_archive
from marsmith.network.image_reference import ImageReference
from marsmith.recipe.checkpoint import Checkpoint
from tests.handlers.pictures import (
    P3_PRIMARIES,
    SRGB_PRIMARIES,
    encode,
    grey_profile,
    ink_profile,
    picture,
    rgb_profile,
)
from tests.handlers.test_image_colour import INKS
from tests.handlers.worker import Post, Worker
from tests.tiers import builds
from tests.tiny import DISHES, food_checkpoint, write_recipe

P3, SRGB = rgb_profile(P3_PRIMARIES), rgb_profile()
SWAPPED = rgb_profile([SRGB_PRIMARIES[1], SRGB_PRIMARIES[0], SRGB_PRIMARIES[2]])
GREY, CMYK = grey_profile(1.0), ink_profile(INKS)
PHOTO = picture(90, 60)
CLEAR = PHOTO.copy()
CLEAR.putalpha(Image.linear_gradient("L").resize(PHOTO.size))


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


TURNED = turned(6)
DEEP = Image.fromarray(np.asarray(PHOTO.convert("L")).astype(np.uint16) * 257)

KINDS = {
    "JPEG, Display P3, turned": encode(PHOTO, "JPEG", icc_profile=P3, exif=TURNED),
    "PNG, Display P3, transparent": encode(CLEAR, icc_profile=P3),
    "PNG, other primaries": encode(PHOTO, icc_profile=SWAPPED),
    "PNG, sRGB": encode(PHOTO, icc_profile=SRGB),
    "PNG, broken profile": encode(PHOTO, icc_profile=P3[:200]),
    "PNG, palette, Display P3": encode(PHOTO.quantize(30), icc_profile=P3),
    "PNG, grey profile": encode(PHOTO.convert("L"), icc_profile=GREY),
    "PNG, grey with an RGB profile": encode(PHOTO.convert("L"), icc_profile=P3),
    "PNG, RGB with a grey profile": encode(PHOTO, icc_profile=GREY),
    "PNG, 16-bit grey": encode(DEEP),
    "PNG, 16-bit grey with a profile": encode(DEEP, icc_profile=GREY),
    "JPEG, CMYK with a profile": encode(PHOTO.convert("CMYK"), "JPEG", icc_profile=CMYK),
    "TIFF, CMYK with a profile, turned": encode(PHOTO.convert("CMYK"), "TIFF", icc_profile=CMYK, exif=TURNED),
    "JPEG, CMYK without": encode(PHOTO.convert("CMYK"), "JPEG"),
}
# Photos that are decoded at an eighth, a quarter and half of their size.
LARGE = {
    **{f"turned {turn}": encode(picture(700, 530), "JPEG", exif=turned(turn)) for turn in range(1, 9)},
    "quarter, turned": encode(picture(290, 470), "JPEG", exif=turned(8)),
    "half": encode(picture(190, 210), "JPEG"),
    "CMYK": encode(picture(700, 530).convert("CMYK"), "JPEG"),
    "CMYK with a profile, turned": encode(picture(700, 530).convert("CMYK"), "JPEG", icc_profile=CMYK, exif=turned(5)),
    "grey": encode(picture(700, 530).convert("L"), "JPEG"),
    "grey with a profile": encode(picture(700, 530).convert("L"), "JPEG", icc_profile=GREY),
    "progressive": encode(picture(701, 533), "JPEG", progressive=True),
    "progressive, Display P3, turned": encode(
        picture(701, 533), "JPEG", progressive=True, icc_profile=P3, exif=turned(6)
    ),
    "MPO": encode(picture(700, 530), "MPO", save_all=True, append_images=[picture(700, 530, seed=6)]),
    "no JPEG": encode(picture(700, 530)),
}
PROCESSORS: dict[str, dict[str, Any]] = {
    "fixed size": {},
    "shortest edge": {"size": {"shortest_edge": 40}, "do_center_crop": True, "crop_size": {"height": 32, "width": 32}},
}


@pytest.fixture(scope="module", params=PROCESSORS)
@builds
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Worker, ImageReference]:
    """The same checkpoint in a worker, and as marsmith's reference."""
    directory = food_checkpoint(tmp_path_factory.mktemp("checkpoint"), processor=PROCESSORS[request.param])
    root: Path = tmp_path_factory.mktemp("root") / "archive"
    extract_archive(build(write_recipe(directory, task="food", top_k=50), tmp_path_factory.mktemp("store")).path, root)
    worker = Worker(FoodHandler(), root, {"handler": {"threads": 1}})
    return worker, ImageReference(Checkpoint(directory, "test", {}, list(DISHES)))


def scores(answer: dict[str, Any]) -> list[float]:
    found = {dish["label"]: dish["score"] for dish in answer["dishes"]}
    return [found[label] for label in DISHES]


@pytest.mark.parametrize("kind", KINDS)
def test_the_handler_and_the_reference_agree(pair: tuple[Worker, ImageReference], kind: str) -> None:
    """pytorch/vision#2950"""
    worker, reference = pair
    (answer,) = worker.predict(Post(KINDS[kind]))
    assert answer.status == 200
    assert scores(answer.value) == pytest.approx(reference.probabilities(KINDS[kind]).tolist(), abs=1e-4)


@pytest.mark.parametrize("kind", LARGE)
def test_they_decode_large_photos_at_the_same_fraction(pair: tuple[Worker, ImageReference], kind: str) -> None:
    worker, reference = pair
    (answer,) = worker.predict(Post(LARGE[kind]))
    assert scores(answer.value) == pytest.approx(reference.probabilities(LARGE[kind]).tolist(), abs=1e-4)


def test_another_fraction_shows_in_the_answers(pair: tuple[Worker, ImageReference]) -> None:
    """The tolerance above means something."""
    _, reference = pair
    settings = reference.settings
    for kind in ("turned 6", "quarter, turned", "half", "CMYK", "grey", "progressive"):
        scaled = reference.probabilities(LARGE[kind])
        reference.settings = settings.model_copy(update={"scaled_decode": False})
        whole = reference.probabilities(LARGE[kind])
        reference.settings = settings
        assert abs(whole - scaled).max() > 3e-4


def test_a_profile_shows_in_the_reference_too(pair: tuple[Worker, ImageReference]) -> None:
    """The tolerance above means something."""
    _, reference = pair
    plain = reference.probabilities(encode(PHOTO))
    assert abs(reference.probabilities(KINDS["PNG, other primaries"]) - plain).max() > 1e-3
    assert abs(reference.probabilities(KINDS["PNG, sRGB"]) - plain).max() == 0
    inks = reference.probabilities(KINDS["JPEG, CMYK without"])
    assert abs(reference.probabilities(KINDS["JPEG, CMYK with a profile"]) - inks).max() > 1e-3
