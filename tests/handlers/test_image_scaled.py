"""A JPEG that is much larger than the network's input is decoded at a fraction of its size."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from handlers.errors import MalformedRequest, TooLarge
from handlers.image import DECODE_MARGIN, least_side, open_image, resize
from handlers.settings import ImageSettings
from tests.handlers.pictures import P3_PRIMARIES, encode, picture, rgb_profile

LIMIT = 1_000_000
LEAST = 64
PLAIN: dict[str, Any] = {"resample": 2, "rescale_factor": 1.0, "mean": (0, 0, 0), "std": (1, 1, 1)}


def jpeg(width: int, height: int, mode: str = "RGB", orientation: int = 1, **options: Any) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encode(smooth(width, height).convert(mode), "JPEG", quality=92, exif=exif, **options)


def smooth(width: int, height: int) -> Image.Image:
    """Colours that are the same at every scale, and differ from place to place."""
    return picture(12, 9).resize((width, height), Image.Resampling.BICUBIC)


@pytest.mark.parametrize(
    ("size", "decoded"),
    [
        ((127, 500), (127, 500)),
        ((128, 500), (64, 250)),
        ((255, 500), (128, 250)),
        ((500, 255), (250, 128)),
        ((256, 501), (64, 126)),
        ((511, 640), (128, 160)),
        ((512, 640), (64, 80)),
        ((900, 700), (113, 88)),
        ((63, 900), (63, 900)),
    ],
)
def test_the_smallest_fraction_whose_sides_are_long_enough(size: tuple[int, int], decoded: tuple[int, int]) -> None:
    assert open_image(jpeg(*size), LIMIT, LEAST).size == decoded


@pytest.mark.parametrize("orientation", range(1, 9))
def test_however_the_file_is_turned(orientation: int) -> None:
    image = open_image(jpeg(600, 520, orientation=orientation), LIMIT, LEAST)
    assert image.size == ((65, 75) if orientation > 4 else (75, 65))


def test_without_a_least_side_every_pixel_is_decoded() -> None:
    assert open_image(jpeg(900, 700), LIMIT).size == (900, 700)


@pytest.mark.parametrize("file_format", ["PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
def test_other_formats_are_decoded_whole(file_format: str) -> None:
    assert open_image(encode(smooth(520, 520), file_format), LIMIT, LEAST).size == (520, 520)


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({"size": (224, 224)}, 448),
        ({"size": (33, 47)}, 94),
        ({"size": (47, 33)}, 94),
        ({"size": (256, 256), "crop": (224, 224)}, 512),
        ({"size": (36, 36), "shortest_edge": 36, "crop": (32, 32)}, 72),
    ],
)
def test_both_sides_keep_twice_what_they_are_resized_to(options: dict[str, Any], least: int) -> None:
    assert DECODE_MARGIN == 2
    assert least_side(ImageSettings(**PLAIN, **options, scaled_decode=True)) == least
    assert least_side(ImageSettings(**PLAIN, **options)) == 0


KINDS: dict[str, dict[str, Any]] = {
    "RGB": {},
    "progressive": {"progressive": True},
    "4:4:4": {"subsampling": 0},
    "grey": {"mode": "L"},
    "CMYK": {"mode": "CMYK"},
    "CMYK, progressive": {"mode": "CMYK", "progressive": True},
    "YCbCr": {"mode": "YCbCr"},
    "Display P3": {"icc_profile": rgb_profile(P3_PRIMARIES)},
    "restarts": {"restart_marker_rows": 1},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(130, 150), (300, 260), (520, 616)])
def test_a_jpeg_of_every_kind_looks_as_it_does_when_it_is_decoded_whole(kind: str, size: tuple[int, int]) -> None:
    data = jpeg(*size, **KINDS[kind])
    settings = ImageSettings(size=(32, 32), **PLAIN, scaled_decode=True)
    scaled = open_image(data, LIMIT, least_side(settings))
    whole = open_image(data, LIMIT)
    assert max(scaled.size) < max(whole.size)
    assert scaled.mode == whole.mode == "RGB"
    assert scaled.info == whole.info
    difference = abs(resize(scaled, settings).astype(int) - resize(whole, settings))
    assert difference.max() <= 12
    assert difference.mean() < 1


def test_the_first_picture_of_an_mpo() -> None:
    frames = [smooth(600, 520), Image.new("RGB", (600, 520))]
    data = encode(frames[0], "MPO", save_all=True, append_images=frames[1:])
    image = open_image(data, LIMIT, LEAST)
    assert image.size == (75, 65)
    assert np.asarray(image).any()


def test_a_thumbnail_in_the_file_is_not_taken_for_the_picture() -> None:
    exif = Image.Exif()
    exif[0x0112] = 1
    thumbnail = encode(Image.new("RGB", (80, 70), "red"), "JPEG")
    exif.get_ifd(0x8769)[0x927C] = thumbnail
    data = encode(Image.new("RGB", (640, 560), "blue"), "JPEG", exif=exif)
    assert thumbnail in data
    image = open_image(data, LIMIT, LEAST)
    assert image.size == (80, 70)
    assert image.getpixel((40, 40)) == pytest.approx((0, 0, 255), abs=4)


def test_pixels_are_counted_before_any_is_left_out() -> None:
    data = jpeg(900, 700)
    with pytest.raises(TooLarge):
        open_image(data, 900 * 700 - 1, LEAST)
    assert open_image(data, 900 * 700, LEAST).size == (113, 88)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("kind", ["RGB", "progressive", "grey", "CMYK"])
def test_a_file_that_is_cut_is_refused(kind: str, share: float) -> None:
    """microsoft/Biodiversity#575"""
    data = jpeg(900, 700, **KINDS[kind])
    assert Image.open(io.BytesIO(data)).size == (900, 700)
    with pytest.raises(MalformedRequest):
        open_image(data[: int(len(data) * share)], LIMIT, LEAST)
