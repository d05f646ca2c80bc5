"""Image file -> pixels: decode, turn upright, flatten, resize, normalise."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from handlers.errors import MalformedRequest, RequestError, TooLarge, UnsupportedMedia
from handlers.settings import ImageSettings

Uint8Array = npt.NDArray[np.uint8]
Float32Array = npt.NDArray[np.float32]

# Raster formats alone: Pillow would run Ghostscript on EPS. Its JPEG opener reads MPO too.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
WHITE = (255, 255, 255)
# A sliver enlarged until its short side fits would take gigabytes.
MAX_RESIZED_PIXELS = 64_000_000

# Pillow's own limit warns on standard error; ours answers 413.
warnings.simplefilter("ignore", Image.DecompressionBombWarning)


def open_rgb(data: bytes, max_pixels: int) -> Image.Image:
    """Decode the first frame as an upright RGB image, transparency flattened on white.

    The size is checked before a pixel is decoded. Raises TooLarge past `max_pixels`, UnsupportedMedia for a colour
    mode without a meaning as a picture, and MalformedRequest for anything that is not a whole image file.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > max_pixels:
                raise TooLarge(f"An image may have at most {max_pixels} pixels.")
            image.load()
            return _rgb(_upright(image))
    except RequestError:
        raise
    except (Image.DecompressionBombError, MemoryError):
        raise TooLarge(f"An image may have at most {max_pixels} pixels.") from None
    except Exception:  # Pillow's decoders raise nearly every type on hostile bytes
        raise MalformedRequest(
            "The data is not a whole image file in a format this model reads (JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF)."
        ) from None


def _upright(image: Image.Image) -> Image.Image:
    """Turned as the EXIF orientation says. Broken EXIF turns nothing: the picture itself is whole."""
    try:
        image.getexif()
    except Exception:  # Pillow's EXIF reader raises SyntaxError, struct.error and more
        return image
    return ImageOps.exif_transpose(image)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16") or image.mode == "I":
        # 16-bit grey: keep the high byte, where Pillow's own conversion clips at 255.
        grey = np.asarray(image)
        if grey.dtype != np.uint16:
            grey = grey.clip(0, 65535).astype(np.uint16)
        return Image.fromarray((grey >> 8).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise UnsupportedMedia("An image of floating-point pixels has no defined range: send 8-bit pixels.")
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        canvas = Image.new("RGB", rgba.size, WHITE)
        canvas.paste(rgba, mask=rgba)
        return canvas
    return image.convert("RGB")


def resize(image: Image.Image, settings: ImageSettings) -> Uint8Array:
    """RGB pixels uint8[H, W, 3] of the size the network takes, as the checkpoint's image processor makes them.

    Raises TooLarge for a sliver that would pass MAX_RESIZED_PIXELS on the way.
    """
    resample = Image.Resampling(settings.resample)
    height, width = settings.size
    if settings.shortest_edge is not None:
        height, width = _shortest_edge(image.height, image.width, settings.shortest_edge)
    if height * width > MAX_RESIZED_PIXELS:
        raise TooLarge("The image is too long for its width: crop it.")
    pixels = image.resize((width, height), resample)
    if settings.crop is not None:
        pixels = _center_crop(pixels, *settings.crop)
    return np.asarray(pixels)


def _shortest_edge(height: int, width: int, edge: int) -> tuple[int, int]:
    """The size with the shorter side `edge` and the longer one in proportion, rounded down."""
    return (edge, int(edge * width / height)) if height <= width else (int(edge * height / width), edge)


def _center_crop(image: Image.Image, height: int, width: int) -> Image.Image:
    """Cut out the middle; what lies outside the image is black."""
    top, left = (image.height - height) // 2, (image.width - width) // 2
    return image.crop((left, top, left + width, top + height))


def normalise(images: Sequence[Uint8Array], settings: ImageSettings) -> Float32Array:
    """uint8[H, W, 3] images -> pixel_values float32[B, 3, H, W]: (pixel * rescale_factor - mean) / std."""
    mean, std = np.asarray(settings.mean, np.float32), np.asarray(settings.std, np.float32)
    pixels = np.stack(images).astype(np.float32)
    pixels *= np.float32(settings.rescale_factor) / std
    pixels -= mean / std
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
