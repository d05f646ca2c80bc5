"""A picture is seen in the colours of its ICC profile, whatever that profile is worth."""

import itertools
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms

from handlers.colour import MAX_PROFILE_BYTES
from handlers.image import open_image, resize
from handlers.settings import ImageSettings
from tests.handlers.pictures import (
    P3_PRIMARIES,
    SRGB_CURVE,
    SRGB_PRIMARIES,
    encode,
    grey_profile,
    icc_profile,
    ink_profile,
    picture,
    rgb_profile,
)

LIMIT = 1_000_000
SWAPPED = rgb_profile([SRGB_PRIMARIES[1], SRGB_PRIMARIES[0], SRGB_PRIMARIES[2]])
P3 = rgb_profile(P3_PRIMARIES)
# Paper, and what every mixture of inks looks like: black has L* 0, every other ink alone 50.
INKS = {
    inks: 255 if not any(inks) else 0 if inks[3] else 128 if sum(inks) == 1 else 64
    for inks in itertools.product((0, 1), repeat=4)
}
CMYK = ink_profile(INKS)
PALE = (120, 90, 200)


def seen(data: bytes, **options: Any) -> Any:
    """The pixels int[H, W, 3] that the network gets, of a file whose size is the network's."""
    image = open_image(data, LIMIT)
    wanted = ImageSettings(options.pop("size", (image.height, image.width)), 2, 1.0, (0, 0, 0), (1, 1, 1), **options)
    return resize(image, wanted).astype(int)


def plain(colour: Any, mode: str = "RGB") -> Image.Image:
    return Image.new(mode, (8, 8), colour)


def light(level: Any) -> Any:
    """Of sRGB levels 0 to 255 (IEC 61966-2-1)."""
    level = np.asarray(level) / 255
    return np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)


def level(amount: Any) -> Any:
    amount = np.clip(amount, 0, 1)
    return 255 * np.where(amount <= 0.0031308, amount * 12.92, 1.055 * amount ** (1 / 2.4) - 0.055)


@pytest.mark.parametrize("file_format", ["PNG", "JPEG", "WEBP", "TIFF", "AVIF"])
def test_a_profile_of_every_format_is_followed(file_format: str) -> None:
    """In this profile red is green and green is red."""
    options: dict[str, Any] = {"lossless": True} if file_format == "WEBP" else {"quality": 100}
    data = encode(plain(PALE), file_format, icc_profile=SWAPPED, **({} if file_format == "TIFF" else options))
    assert seen(data)[4, 4].tolist() == pytest.approx([90, 120, 200], abs=3)


def test_display_p3_is_what_its_matrix_says() -> None:
    """Against the formula in floating point; phones take photos in this space."""
    image = picture(40, 30)
    matrix = np.linalg.inv(np.array(SRGB_PRIMARIES).T) @ np.array(P3_PRIMARIES).T
    expected = level(light(image) @ matrix.T)
    found = seen(encode(image, icc_profile=P3))
    assert abs(found - expected).max() <= 2
    assert abs(found - np.asarray(image)).max() > 20


@pytest.mark.parametrize("mode", ["L", "LA", "1"])
def test_a_grey_profile_is_followed(mode: str) -> None:
    """Light in proportion to the level: 55 of 255 is bright in sRGB."""
    colour: Any = {"L": 55, "LA": (55, 255), "1": 1}[mode]
    expected = 255 if mode == "1" else level(55 / 255)
    found = seen(encode(plain(colour, mode), icc_profile=grey_profile(1.0)))
    assert found[0, 0].tolist() == pytest.approx([expected] * 3, abs=1)


def test_grey_is_seen_through_an_rgb_profile() -> None:
    found = seen(encode(plain(55, "L"), icc_profile=rgb_profile(curve=(1.0, 1.0, 0.0, 1.0, 0.0))))
    assert found[0, 0].tolist() == pytest.approx([level(55 / 255)] * 3, abs=1)


def test_16_bit_grey_is_seen_through_its_profile() -> None:
    data = encode(Image.fromarray(np.full((8, 8), 55 * 257, np.uint16)), icc_profile=grey_profile(1.0))
    assert seen(data)[0, 0].tolist() == pytest.approx([level(55 / 255)] * 3, abs=1)


@pytest.mark.parametrize("file_format", ["JPEG", "TIFF"])
@pytest.mark.parametrize(
    ("inks", "grey"), [((0, 0, 0, 0), 255), ((255, 0, 0, 0), 119), ((0, 255, 0, 0), 119), ((0, 0, 0, 255), 0)]
)
def test_inks_are_seen_as_printed(file_format: str, inks: tuple[int, ...], grey: int) -> None:
    """pytorch/serve#65: L* 50 is 119 in sRGB, and the naive conversion would give cyan and magenta."""
    found = seen(encode(plain(inks, "CMYK"), file_format, icc_profile=CMYK))
    assert found[4, 4].tolist() == pytest.approx([grey] * 3, abs=3)


@pytest.mark.parametrize("file_format", ["JPEG", "TIFF"])
def test_inks_without_a_profile_are_mixed_naively(file_format: str) -> None:
    assert seen(encode(plain((255, 0, 0, 0), "CMYK"), file_format))[4, 4].tolist() == pytest.approx(
        [0, 255, 255], abs=2
    )


def test_transparency_is_white_in_the_profile_too() -> None:
    image = plain((*PALE, 255), "RGBA")
    image.paste((0, 0, 0, 0), (0, 0, 4, 8))
    found = seen(encode(image, icc_profile=SWAPPED))
    assert found[0, 0].tolist() == pytest.approx([255] * 3, abs=1)
    assert found[0, 7].tolist() == pytest.approx([90, 120, 200], abs=1)


def test_a_turned_photo_keeps_its_profile() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    found = seen(encode(Image.new("RGB", (8, 4), PALE), icc_profile=SWAPPED, exif=exif))
    assert found.shape == (8, 4, 3)
    assert found[0, 0].tolist() == pytest.approx([90, 120, 200], abs=1)


def test_a_crop_larger_than_the_photo_is_black_outside() -> None:
    """Outside means outside: no ink would be white paper."""
    data = encode(plain((0, 0, 0, 0), "CMYK"), "TIFF", icc_profile=CMYK)
    found = seen(data, size=(8, 8), shortest_edge=8, crop=(10, 12))
    assert found.shape == (10, 12, 3)
    assert found[0].max() == found[:, 1].max() == 0
    assert found[1:9, 2:10].min() >= 253


# Some colours would change by one level, as with the profiles of sRGB that programs write.
ROUNDED = rgb_profile(curve=(2.42, *SRGB_CURVE[1:]))


@pytest.mark.parametrize("profile", [ROUNDED, ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()])
def test_an_srgb_profile_changes_no_pixel(profile: bytes) -> None:
    image = picture(60, 60)
    np.testing.assert_array_equal(seen(encode(image, icc_profile=profile)), np.asarray(image))


@pytest.mark.parametrize(
    ("mode", "colour", "profile"),
    [
        ("RGB", PALE, grey_profile(1.0)),
        ("RGB", PALE, CMYK),
        ("CMYK", (10, 200, 30, 0), SWAPPED),
        ("L", 55, CMYK),
    ],
)
def test_a_profile_of_another_kind_of_picture_is_ignored(mode: str, colour: Any, profile: bytes) -> None:
    image = plain(colour, mode)
    found = seen(encode(image, "TIFF", icc_profile=profile))
    np.testing.assert_array_equal(found, np.asarray(image.convert("RGB")))


def endless() -> bytes:
    """A pipeline of 20,000 stages, each of which every pixel would pass."""
    stage = b"matf\0\0\0\0" + struct.pack(">HH", 3, 3) + struct.pack(">12f", 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0)
    stages = 20_000
    start = 16 + 8 * stages
    places = b"".join(struct.pack(">II", start + place * len(stage), len(stage)) for place in range(stages))
    pipeline = b"mpet\0\0\0\0" + struct.pack(">HHI", 3, 3, stages) + places + stage * stages
    return icc_profile(b"RGB ", {b"D2B0": pipeline, b"A2B0": b"mft1"})


HOSTILE = {
    "empty": b"",
    "junk": b"nonsense" * 40,
    "header alone": SWAPPED[:128],
    "cut": SWAPPED[:300],
    "no tags": icc_profile(b"RGB ", {}),
    "too many tags": SWAPPED[:128] + b"\xff" * 4 + SWAPPED[132:],
    "places outside": SWAPPED[:136] + b"\xff" * 8 + SWAPPED[144:],
    "a device link": SWAPPED[:12] + b"link" + SWAPPED[16:],
    "an unknown space": SWAPPED[:16] + b"XCLR" + SWAPPED[20:],
    "huge": SWAPPED + b"\0" * MAX_PROFILE_BYTES,
    "endless": endless(),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_profile_that_cannot_be_used_is_ignored(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    image = picture(30, 30)
    found = seen(encode(image, "TIFF", icc_profile=HOSTILE[name]), size=(30, 30))
    np.testing.assert_array_equal(found, np.asarray(image))
    assert capfd.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("profile", [SWAPPED, P3, CMYK, grey_profile(1.8)], ids=["swapped", "P3", "CMYK", "grey"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_profile_spoils_no_picture(profile: bytes, data: st.DataObject) -> None:
    broken = bytearray(profile)
    for place, value in data.draw(st.dictionaries(st.integers(0, len(broken) - 1), st.integers(0, 255))).items():
        broken[place] = value
    mode = {b"CMYK": "CMYK", b"GRAY": "L"}.get(profile[16:20], "RGB")
    assert seen(encode(picture(9, 9).convert(mode), "TIFF", icc_profile=bytes(broken))).shape == (9, 9, 3)


def test_a_profile_is_followed_after_resizing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A photo of 12 megapixels costs no more to convert than a thumbnail."""
    sizes = []
    apply = ImageCms.ImageCmsTransform.apply

    def note(self: ImageCms.ImageCmsTransform, image: Image.Image, *args: Any) -> Image.Image:
        sizes.append(image.size)
        return apply(self, image, *args)

    monkeypatch.setattr(ImageCms.ImageCmsTransform, "apply", note)
    for profile, mode in ((P3, "RGB"), (CMYK, "CMYK")):
        seen(encode(Image.new(mode, (900, 700)), "TIFF", icc_profile=profile), size=(32, 32))
    assert max(width * height for width, height in sizes) <= 1024
    assert sizes.count((32, 32)) == 2
