"""Image file -> pixels: decode, turn upright, flatten, resize."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import numpy.typing as npt
from PIL import AvifImagePlugin, Image, PngImagePlugin

from handlers.colour import MAX_PROFILE_BYTES, flat, profile_of, to_srgb
from handlers.errors import MalformedRequest, RequestError, TooLarge, UnsupportedMedia
from handlers.quiet import no_standard_error, no_warnings
from handlers.settings import ImageSettings

try:
    import pillow_heif
except ImportError:
    pillow_heif = None

Uint8Array = npt.NDArray[np.uint8]
Float32Array = npt.NDArray[np.float32]

# Raster formats alone: Pillow would run Ghostscript on EPS. Its JPEG opener reads MPO too.
FORMATS = ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"]
if pillow_heif is not None:
    pillow_heif.register_heif_opener()
    FORMATS.append("HEIF")
# The brands of ISO/IEC 23008-12 whose pictures are HEVC.
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs")
# Of the box that lists a file's brands: a dozen are many.
MAX_BRANDS_BYTES = 128
# A sliver enlarged until its short side fits would take gigabytes.
MAX_RESIZED_PIXELS = 64_000_000
# What a JPEG that is decoded at a fraction of its size has at least, times what it is resized to: resampling still
# averages, and hides how it came to be smaller.
DECODE_MARGIN = 2
EXIF_ORIENTATION = 0x0112
# What puts each EXIF orientation upright; 1 is upright.
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

# Pillow's TIFF reader logs what it refuses; the client gets our answer.
logging.getLogger("PIL").setLevel(logging.CRITICAL)
# Bytes of one unpacked PNG chunk: Pillow's own limit would refuse pictures for a large ICC profile.
PngImagePlugin.MAX_TEXT_CHUNK = MAX_PROFILE_BYTES


def limit_threads(threads: int) -> None:
    """Let each AVIF and HEIC decoder of the process take this many threads, where it would take every core."""
    AvifImagePlugin.DEFAULT_MAX_THREADS = threads
    if pillow_heif is not None:
        pillow_heif.options.DECODE_THREADS = threads


def least_side(settings: ImageSettings) -> int:
    """Pixels that each side of a JPEG keeps when it is decoded at a fraction of its size; 0 where all are decoded.

    One number for both sides, because the file may be turned.
    """
    return DECODE_MARGIN * (settings.shortest_edge or max(settings.size)) if settings.scaled_decode else 0


def open_image(
    data: bytes, max_pixels: int, least_side: int = 0, take: Callable[[int], None] = lambda _: None
) -> Image.Image:
    """Decode the first frame as an upright RGB image, transparency flattened on white.

    With `least_side`, a JPEG is decoded at 1/2, 1/4 or 1/8 of its size where both sides keep as many pixels: most of
    the work of a photo's pixels is then never done.
    `take` hears how many pixels the file has before they are decoded, and may wait (budget.py).
    Where the pixels are not sRGB, `info["icc_profile"]` has the profile that `resize` converts them by, and an image
    of inks is still CMYK: to convert the few pixels left after resizing is a hundred times cheaper.
    The size is checked before a pixel is decoded. Raises TooLarge past `max_pixels`, UnsupportedMedia for HEIC without
    pillow-heif and for floating-point pixels, and MalformedRequest for anything that is not a whole image file.
    """
    # Pillow holds frames inside a file against this, and raises at its double. It is the process's, as is the limit.
    Image.MAX_IMAGE_PIXELS = max_pixels
    try:
        # Pillow warns on standard error, which TorchServe logs, of what a client may send.
        with no_warnings, Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > max_pixels:
                raise TooLarge(f"An image may have at most {max_pixels} pixels.")
            take(image.width * image.height)
            if least_side:
                image.draft(None, (least_side, least_side))
            # libtiff itself writes there what it finds wrong with a file.
            with no_standard_error if image.format == "TIFF" else nullcontext():
                image.load()
            profile = profile_of(image)
            upright = _upright(flat(image, keep_inks=profile is not None), _orientation(image))
            upright.info = {"icc_profile": profile} if profile else {}
            return upright
    except RequestError:
        raise
    except (Image.DecompressionBombError, MemoryError):
        raise TooLarge(f"An image may have at most {max_pixels} pixels.") from None
    except Exception:  # Pillow's decoders raise nearly every type on hostile bytes
        if pillow_heif is None and _is_heic(data):
            raise UnsupportedMedia("This server does not read HEIC pictures: send JPEG, PNG, WebP or AVIF.") from None
        raise MalformedRequest(
            "The data is not a whole image file in a format this model reads (JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF)."
        ) from None


def _is_heic(data: bytes) -> bool:
    """Whether the first box names a brand of HEIC, as its own or a compatible one (ISO/IEC 14496-12, 4.3)."""
    end = min(int.from_bytes(data[:4], "big"), MAX_BRANDS_BYTES)
    return data[4:8] == b"ftyp" and any(data[place : place + 4] in HEIC_BRANDS for place in (8, *range(16, end, 4)))


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 to 8. Broken EXIF turns nothing: the picture itself is whole."""
    try:
        return int(image.getexif().get(EXIF_ORIENTATION, 1))
    except Exception:  # Pillow's EXIF reader raises SyntaxError, struct.error and more
        return 1


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    return image.transpose(TURNS[orientation]) if orientation in TURNS else image


def resize(image: Image.Image, settings: ImageSettings) -> Uint8Array:
    """Pixels uint8[H, W, 3] in sRGB of the size the network takes, as the checkpoint's image processor makes them.

    Raises TooLarge for a sliver that would pass MAX_RESIZED_PIXELS on the way.
    """
    height, width = settings.size
    if settings.shortest_edge is not None:
        height, width = _shortest_edge(image.height, image.width, settings.shortest_edge)
    if height * width > MAX_RESIZED_PIXELS:
        raise TooLarge("The image is too long for its width: crop it.")
    pixels = image.resize((width, height), Image.Resampling(settings.resample))
    profile = image.info.get("icc_profile")
    if settings.crop is None:
        return np.asarray(to_srgb(pixels, profile))
    return np.asarray(_center_crop(pixels, profile, *settings.crop))


def _shortest_edge(height: int, width: int, edge: int) -> tuple[int, int]:
    """The size with the shorter side `edge` and the longer one in proportion, rounded down."""
    return (edge, int(edge * width / height)) if height <= width else (int(edge * height / width), edge)


def _center_crop(image: Image.Image, profile: bytes | None, height: int, width: int) -> Image.Image:
    """Cut out the middle as sRGB; what lies outside the image is black."""
    top, left = (image.height - height) // 2, (image.width - width) // 2
    box = (max(left, 0), max(top, 0), min(left + width, image.width), min(top + height, image.height))
    middle = to_srgb(image.crop(box), profile)
    if middle.size == (width, height):
        return middle
    canvas = Image.new("RGB", (width, height))
    canvas.paste(middle, (max(-left, 0), max(-top, 0)))
    return canvas
