"""Whatever becomes of a file's bytes, the answer is a picture or a refusal, and nobody hears of it."""

import io
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from handlers.errors import RequestError
from handlers.image import FORMATS, open_image
from tests.handlers.pictures import P3_PRIMARIES, encode, picture, rgb_profile

LIMIT = 20_000
EXIF = Image.Exif()
EXIF[0x0112], EXIF[0x010E] = 6, "a photo"
DRESS: dict[str, Any] = {"icc_profile": rgb_profile(P3_PRIMARIES), "exif": EXIF}
FRAMES: dict[str, Any] = {"save_all": True, "append_images": [picture(40, 30, 6)]}
SMALL = picture(40, 30)

FILES = {
    "JPEG": encode(SMALL, "JPEG", **DRESS),
    "JPEG progressive": encode(SMALL, "JPEG", progressive=True),
    "JPEG CMYK": encode(SMALL.convert("CMYK"), "JPEG"),
    "MPO": encode(SMALL, "MPO", **FRAMES),
    "PNG": encode(SMALL, "PNG", **DRESS),
    "PNG palette": encode(SMALL.quantize(7), "PNG", transparency=b"\x80\0"),
    "PNG 16": encode(SMALL.convert("I;16"), "PNG"),
    "APNG": encode(SMALL, "PNG", **FRAMES),
    "WEBP": encode(SMALL, "WEBP", **DRESS),
    "WEBP lossless": encode(SMALL.convert("RGBA"), "WEBP", lossless=True, **FRAMES),
    "GIF": encode(SMALL, "GIF", **FRAMES),
    "BMP": encode(SMALL.quantize(16), "BMP"),
    "BMP 32": encode(SMALL.convert("RGBA"), "BMP"),
    **{
        f"TIFF {compression}": encode(SMALL, "TIFF", compression=compression, **DRESS)
        for compression in ("raw", "packbits", "tiff_lzw", "tiff_adobe_deflate", "jpeg", "zstd")
    },
    "TIFF fax": encode(SMALL.convert("1"), "TIFF", compression="group4"),
    "TIFF LAB": encode(SMALL.convert("LAB"), "TIFF"),
    "AVIF": encode(SMALL, "AVIF", **DRESS),
}


def test_every_format_that_is_read_is_damaged_here() -> None:
    opened = {Image.open(io.BytesIO(data)).format for data in FILES.values()}
    assert opened >= set(FORMATS) - {"HEIF"}


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(places={}, cut=1.0, end=b"")
@given(
    places=st.dictionaries(st.floats(0, 1, exclude_max=True), st.integers(0, 255), max_size=12),
    cut=st.one_of(st.just(1.0), st.floats(0, 1)),
    end=st.binary(max_size=8),
)
def test_any_damage_gets_a_picture_or_a_refusal(
    name: str, places: dict[float, int], cut: float, end: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """pytorch/serve#1230, microsoft/Biodiversity#575"""
    data = bytearray(FILES[name])
    for place, value in places.items():
        data[int(place**2 * len(data))] = value  # most formats keep their headers in front
    damaged = bytes(data[: int(len(data) * cut)]) + end
    try:
        image = open_image(damaged, LIMIT)
    except RequestError as refusal:
        answer: object = refusal.status
    else:
        answer = image.mode
        assert 0 < image.width * image.height <= LIMIT
        assert len(image.tobytes()) == image.width * image.height * len(image.getbands())
    assert answer in {"RGB", "CMYK", 400, 413, 415}
    assert capfd.readouterr().err == ""


def test_standard_error_is_itself_again_afterwards(capfd: pytest.CaptureFixture[str]) -> None:
    for data in (FILES["TIFF raw"], FILES["TIFF tiff_lzw"][:200]):
        try:
            open_image(data, LIMIT)
        except RequestError:
            os.write(2, b"refused ")
        else:
            os.write(2, b"read ")
    assert capfd.readouterr().err == "read refused "
