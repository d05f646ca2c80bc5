"""The picture of an image file, as the checkpoint is asked about it.

The handlers have their own; golden requests hold the two together.
"""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

from marsmith.errors import RecipeError, first_line

# libjpeg's scaled decoding, as far as Pillow offers it.
FRACTIONS = (8, 4, 2)
# What is decoded at a fraction of its size has at least this many times the pixels that it is resized to.
DECODE_MARGIN = 2
NOISE_SEED = 20
# Two profiles of sRGB differ by that much.
ROUNDING_LEVELS = 2


def read_picture(data: bytes, resized_to: int | None) -> tuple[Image.Image, ImageCms.ImageCmsTransform | None]:
    """The picture upright, in RGB on white, and the way from its colours to sRGB if it has a profile of others.

    With a profile of inks it is still CMYK. A JPEG is decoded at a fraction of its size, where its sides are so much
    longer than `resized_to` pixels, and this is not None. Raises RecipeError where the data are no image.
    """
    try:
        with Image.open(io.BytesIO(data)) as image:
            colours = _colours(image)
            if resized_to is not None and image.format in ("JPEG", "MPO"):
                _decode_a_fraction(image, DECODE_MARGIN * resized_to)
            upright = ImageOps.exif_transpose(image)
            return (upright if colours and upright.mode == "CMYK" else _on_white(upright)), colours
    except UnidentifiedImageError:
        raise RecipeError("A sample of the recipe is no image that Pillow can read.") from None
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise RecipeError(f"A sample of the recipe is no image that Pillow can read: {first_line(error)}.") from None


def _decode_a_fraction(image: Image.Image, least: int) -> None:
    """Let libjpeg decode the smallest fraction whose sides are at least so many pixels."""
    for fraction in FRACTIONS:
        width, height = image.width // fraction, image.height // fraction
        if min(width, height) >= least:
            image.draft(None, (width, height))
            return


def _on_white(image: Image.Image) -> Image.Image:
    """An RGB image of 8 bits, transparency flattened on white."""
    if image.mode.startswith("I"):
        # Pillow's own conversion of 16-bit grey clips at 255.
        return Image.fromarray((np.asarray(image) // 256).clip(0, 255).astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")


def _colours(image: Image.Image) -> ImageCms.ImageCmsTransform | None:
    """From the image's ICC profile to sRGB, perceptually; None without a profile of its kind that differs from sRGB."""
    try:
        profile = ImageCms.getOpenProfile(io.BytesIO(image.info["icc_profile"]))
        mode = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}[profile.profile.xcolor_space.strip()]
        if (image.mode == "CMYK") != (mode == "CMYK") or (mode == "L" and image.mode[0] not in "1LI"):
            return None
        transform = ImageCms.buildTransform(profile, ImageCms.createProfile("sRGB"), mode, "RGB")
        noise = np.random.default_rng(NOISE_SEED).integers(0, 256, (64, 64, 3), np.uint8)
        before = Image.fromarray(noise).convert(mode)
        change = np.asarray(before.convert("RGB")).astype(int) - np.asarray(transform.apply(before))
    except Exception:  # LittleCMS raises several types; a picture with a broken profile is shown as it is
        return None
    return transform if mode == "CMYK" or abs(change).max() > ROUNDING_LEVELS else None
