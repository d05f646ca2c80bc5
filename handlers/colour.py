"""Pixels of any mode, in the colour space of any ICC profile -> sRGB, which image networks are trained in."""

from __future__ import annotations

import io
from contextlib import suppress
from functools import lru_cache

import numpy as np
from PIL import Image, ImageCms

from handlers.errors import UnsupportedMedia
from handlers.meter import Meter, Step

WHITE = (255, 255, 255)
TIFF_BITS_PER_SAMPLE = 258
# A profile's colour space (ICC.1:2022, 7.2.8) and the mode of the pixels it describes.
MODES = {b"RGB ": "RGB", b"GRAY": "L", b"CMYK": "CMYK"}
GREY_MODES = ("1", "L", "LA", "La", "I", "I;16", "I;16L", "I;16B")
# Press profiles have 0.5 to 3 MB.
MAX_PROFILE_BYTES = 4_000_000
CACHED_TRANSFORMS = 8
# Two profiles of sRGB differ by rounding alone.
SAME_LEVELS = 2
HEADER_BYTES, TAG_BYTES, MAX_TAGS = 128, 12, 100
# LittleCMS samples a profile of tables or of inks into a grid of its own.
MATRIX_PROFILES = Step("colour profiles", 4_000_000)
TABLE_PROFILES = Step("colour profiles of tables", 30_000_000)
INK_PROFILES = Step("colour profiles of inks", 150_000_000)
PROFILE_BYTES = Step("bytes of colour profiles", 50)
CONVERTED_PIXELS = Step("pixels", 40)
# Of `flat`, by what it has to do.
SAME, CONVERTED, CLEARED, DEEP = (Step("pixels", price) for price in (0, 5, 12, 15))
# Bytes of a pixel, by mode where they are not four; and those that `flat` makes of it, each of its copies.
PIXEL_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2, "I;16N": 2}
RGB_BYTES = 4
COPIED_BYTES = {SAME: 0, CONVERTED: RGB_BYTES, CLEARED: 2 * RGB_BYTES, DEEP: 2 + RGB_BYTES}
MOST_HELD_BYTES = 12
ROWS_AT_ONCE = 256


def flat(image: Image.Image, *, keep_inks: bool) -> Image.Image:
    """RGB of 8 bits, transparency flattened on white; with `keep_inks`, CMYK stays CMYK. It may be the image itself.

    Raises UnsupportedMedia for floating-point pixels.
    """
    if image.mode == "F":
        raise UnsupportedMedia("An image of floating-point pixels has no defined range: send 8-bit pixels.")
    if image.mode.startswith("I"):
        return _high_bits(image).convert("RGB")
    if image.has_transparency_data:
        rgba = image if image.mode == "RGBA" else image.convert("RGBA")
        canvas = Image.new("RGB", rgba.size, WHITE)
        canvas.paste(rgba, mask=rgba)
        return canvas
    return image if image.mode == "CMYK" and keep_inks else _rgb(image)


def flattening(image: Image.Image) -> Step:
    """What `flat` will do with each pixel."""
    if image.mode.startswith("I"):
        return DEEP
    if image.has_transparency_data:
        return CLEARED
    return SAME if image.mode == "RGB" else CONVERTED


def held_bytes(image: Image.Image) -> int:
    """What `flat` holds of each pixel at most, the image's own bytes among it."""
    own = PIXEL_BYTES.get(image.mode, RGB_BYTES)
    return own + (RGB_BYTES if image.mode == "RGBA" else COPIED_BYTES[flattening(image)])


def _rgb(image: Image.Image) -> Image.Image:
    """The image in RGB; itself where it is, of which Pillow's `convert` would make a copy."""
    return image if image.mode == "RGB" else image.convert("RGB")


def _high_bits(image: Image.Image) -> Image.Image:
    """The high 8 bits of grey of 12 or 16, where Pillow's own conversion clips at 255; a transparent grey is white."""
    (bits, *_) = getattr(image, "tag_v2", {}).get(TIFF_BITS_PER_SAMPLE, (16,))
    clear = image.info.get("transparency")
    grey = np.empty((image.height, image.width), np.uint8)
    for top in range(0, image.height, ROWS_AT_ONCE):
        bottom = min(top + ROWS_AT_ONCE, image.height)
        samples = np.asarray(image.crop((0, top, image.width, bottom)))
        grey[top:bottom] = (samples.clip(0, 65535) >> (4 if bits == 12 else 8)).clip(0, 255)
        if isinstance(clear, int):
            grey[top:bottom][samples == clear] = 255
    return Image.fromarray(grey)


def profile_of(image: Image.Image) -> bytes | None:
    """The image's ICC profile, if it describes pixels of the image's kind and can be used."""
    profile = image.info.get("icc_profile")
    if not isinstance(profile, bytes) or not _is_usable(profile):
        return None
    space = MODES[profile[16:20]]
    if image.mode == "CMYK":
        fits = space == "CMYK"
    elif image.mode in GREY_MODES:
        fits = space in {"L", "RGB"}
    else:
        fits = space == "RGB" and image.mode != "LAB"
    return profile if fits else None


def to_srgb(image: Image.Image, profile: bytes | None, meter: Meter) -> Image.Image:
    """The image in RGB, seen through its profile; as if it had none where LittleCMS cannot use the profile.

    Raises TooLarge where that costs more than is left.
    """
    if profile:
        meter.spend(_kind(profile))
        meter.spend(PROFILE_BYTES, len(profile))
        meter.spend(CONVERTED_PIXELS, image.width * image.height)
    transform = _transform(profile) if profile else None
    if transform is not None:
        with suppress(Exception):  # a broken profile must not spoil a whole picture
            return transform.apply(image.convert(transform.input_mode))
    return _rgb(image)


def _kind(profile: bytes) -> Step:
    """A profile of a matrix and curves has no table (tags A2B0 to A2B2)."""
    if MODES[profile[16:20]] == "CMYK":
        return INK_PROFILES
    return TABLE_PROFILES if b"A2B" in {name[:3] for name in _tags(profile)} else MATRIX_PROFILES


def _tags(profile: bytes) -> list[bytes]:
    """The names of a profile's tags."""
    first = HEADER_BYTES + 4
    count = int.from_bytes(profile[HEADER_BYTES:first], "big")
    return [profile[place : place + 4] for place in range(first, first + count * TAG_BYTES, TAG_BYTES)]


def _is_usable(profile: bytes) -> bool:
    """Whether the header is one of a picture's profile, and what follows is bounded in work.

    A multi-processing pipeline (tags D2B0 to D2B3) may have thousands of stages, all run for every pixel.
    """
    tags = int.from_bytes(profile[HEADER_BYTES : HEADER_BYTES + 4], "big")
    if len(profile) > MAX_PROFILE_BYTES or tags > MAX_TAGS:
        return False
    names = {name[:3] for name in _tags(profile)}
    return profile[16:20] in MODES and profile[36:40] == b"acsp" and b"D2B" not in names


@lru_cache(CACHED_TRANSFORMS)
def _transform(profile: bytes) -> ImageCms.ImageCmsTransform | None:
    """From the profile to sRGB; None where the profile is broken, or is sRGB itself.

    The rendering intent is perceptual, the one for photographs; for the profiles of cameras and screens, which are a
    matrix and curves, it is the same as relative colorimetric.
    """
    mode = MODES[profile[16:20]]
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        target = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
        transform = ImageCms.ImageCmsTransform(source, target, mode, "RGB", ImageCms.Intent.PERCEPTUAL)
        return None if mode != "CMYK" and _changes_nothing(transform) else transform
    except Exception:  # LittleCMS's errors come as OSError, ValueError, TypeError and PyCMSError
        return None


def _changes_nothing(transform: ImageCms.ImageCmsTransform) -> bool:
    levels = np.linspace(0, 255, 9).astype(np.uint8)
    colours = Image.fromarray(np.stack(np.meshgrid(levels, levels, levels), -1).reshape(1, -1, 3))
    probe = colours.convert(transform.input_mode)
    before, after = np.asarray(probe.convert("RGB")).astype(int), np.asarray(transform.apply(probe))
    return bool(abs(after - before).max() <= SAME_LEVELS)
