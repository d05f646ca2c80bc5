"""Image file -> pixels: decode, turn upright, flatten, resize."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from contextlib import nullcontext
from math import ceil

import numpy as np
from PIL import AvifImagePlugin, Image, PngImagePlugin

from handlers.arrays import Uint8Array
from handlers.colour import MAX_PROFILE_BYTES, MOST_HELD_BYTES, flat, flattening, held_bytes, profile_of, to_srgb
from handlers.errors import MalformedRequest, RequestError, TooLarge, UnsupportedMedia
from handlers.headers.examine import examine
from handlers.meter import Extent, Meter, Step, check_memory
from handlers.quiet import no_standard_error, no_warnings
from handlers.settings import ImageSettings
from handlers.work import Work

try:
    import pillow_heif
except ImportError:
    pillow_heif = None


# Raster formats alone: Pillow would run Ghostscript on EPS. Its JPEG opener reads MPO too.
FORMATS = ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"]
if pillow_heif is not None:
    pillow_heif.register_heif_opener()
    FORMATS.append("HEIF")
# The brands of ISO/IEC 23008-12 whose pictures are HEVC.
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs")
NO_HEIC = "This server does not read HEIC pictures: send JPEG, PNG, WebP or AVIF."
# Of the box that lists a file's brands: a dozen are many.
MAX_BRANDS_BYTES = 128
# A sliver enlarged until its short side fits would take gigabytes.
MAX_RESIZED_PIXELS = 64_000_000
# What a JPEG that is decoded at a fraction of its size has at least, times what it is resized to: resampling still
# averages, and hides how it came to be smaller.
DECODE_MARGIN = 2
# What resampling takes of pixels: Pillow multiplies each source pixel in reach, across and then down.
TAPS = Step("pixels", 2)
# Half of the pixels in reach of a filter that does not shrink (Pillow's Resample.c).
REACH = {
    Image.Resampling.NEAREST: 0.5,
    Image.Resampling.BOX: 0.5,
    Image.Resampling.BILINEAR: 1.0,
    Image.Resampling.HAMMING: 1.0,
    Image.Resampling.BICUBIC: 2.0,
    Image.Resampling.LANCZOS: 3.0,
}
TURNED_PIXELS = Step("pixels", 8)
RGB_BYTES = 4
# What is held of a turned pixel, at most: it and the one that it came from.
TURNED_BYTES = 2 * RGB_BYTES
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
    data: bytes,
    max_pixels: int,
    least_side: int = 0,
    take: Callable[[int], None] = lambda _: None,
    work: Work | None = None,
) -> Image.Image:
    """Decode the first frame as an upright RGB image, transparency flattened on white.

    With `least_side`, a JPEG is decoded at 1/2, 1/4 or 1/8 of its size where both sides keep as many pixels: most of
    the work of a photo's pixels is then never done.
    `take` hears how many bytes will be held at once before they are, and may wait (budget.py). What decoding costs is
    spent from `work` first; without it, the image has that of a request of its own.
    Where the pixels are not sRGB, `info["icc_profile"]` has the profile that `resize` converts them by, and an image
    of inks is still CMYK: to convert the few pixels left after resizing is a hundred times cheaper.
    The file's structure is counted before Pillow reads it. Raises TooLarge past `max_pixels`, meter.py's limits or the
    work that is left, UnsupportedMedia for HEIC without pillow-heif and for floating-point pixels, and MalformedRequest
    for anything that is not a whole image file.
    """
    meter = Meter(work or Work(), max_pixels)
    if pillow_heif is None and data[4:8] == b"ftyp" and data[8:12] in HEIC_BRANDS:
        raise UnsupportedMedia(NO_HEIC)
    try:
        extent = examine(data, least_side, meter)
        if extent is None:
            raise ValueError("a file of no format that is read")
        check_memory(extent.memory)
        take(max(extent.memory, extent.decoded * MOST_HELD_BYTES))
        # Pillow holds frames inside a file against this, and raises at twice as many. The limit is the process's too.
        Image.MAX_IMAGE_PIXELS = max_pixels
        # Pillow warns on standard error, which TorchServe logs, of what a client may send.
        with no_warnings:
            flattened, orientation = _decoded(data, extent, least_side, meter)
            return _upright(flattened, orientation, meter)
    except RequestError:
        raise
    except (Image.DecompressionBombError, MemoryError):
        raise TooLarge(f"An image may have at most {max_pixels} pixels.") from None
    except Exception:  # Pillow's decoders raise nearly every type on hostile bytes
        if pillow_heif is None and _is_heic(data):
            raise UnsupportedMedia(NO_HEIC) from None
        raise MalformedRequest(
            "The data is not a whole image file in a format this model reads (JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF)."
        ) from None


def _decoded(data: bytes, extent: Extent, least_side: int, meter: Meter) -> tuple[Image.Image, int]:
    """The flat image and its orientation; what was decoded is let go where it is another one."""
    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        if image.width * image.height > extent.width * extent.height:
            raise ValueError("more pixels than were counted")
        if least_side:
            image.draft(None, (least_side, least_side))
        # libtiff itself writes there what it finds wrong with a file.
        with no_standard_error if image.format == "TIFF" else nullcontext():
            image.load()
        profile = profile_of(image)
        pixels = image.width * image.height
        check_memory(pixels * held_bytes(image))
        meter.spend(flattening(image), pixels)
        flattened = flat(image, keep_inks=profile is not None)
        orientation = _orientation(image)
    flattened.info = {"icc_profile": profile} if profile else {}
    return flattened, orientation


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


def _upright(image: Image.Image, orientation: int, meter: Meter) -> Image.Image:
    if orientation not in TURNS:
        return image
    pixels = image.width * image.height
    check_memory(pixels * TURNED_BYTES)
    meter.spend(TURNED_PIXELS, pixels)
    turned = image.transpose(TURNS[orientation])
    turned.info = image.info
    return turned


def resize(image: Image.Image, settings: ImageSettings, work: Work | None = None) -> Uint8Array:
    """Pixels uint8[H, W, 3] in sRGB of the size the network takes, as the checkpoint's image processor makes them.

    What it costs is spent from `work` first. Raises TooLarge for a sliver that would pass MAX_RESIZED_PIXELS on the
    way, and where more work is needed than is left.
    """
    meter = Meter(work or Work())
    height, width = settings.size
    if settings.shortest_edge is not None:
        height, width = _shortest_edge(image.height, image.width, settings.shortest_edge)
    if height * width > MAX_RESIZED_PIXELS:
        raise TooLarge("The image is too long for its width: crop it.")
    filter_ = Image.Resampling(settings.resample)
    _spend_resampling(image, width, height, REACH[filter_], meter)
    pixels = image.resize((width, height), filter_)
    profile = image.info.get("icc_profile")
    if settings.crop is None:
        return np.asarray(to_srgb(pixels, profile, meter))
    return np.asarray(_center_crop(pixels, profile, *settings.crop, meter))


def _spend_resampling(image: Image.Image, width: int, height: int, reach: float, meter: Meter) -> None:
    across = 2 * ceil(reach * max(1.0, image.width / width)) + 1
    down = 2 * ceil(reach * max(1.0, image.height / height)) + 1
    check_memory(RGB_BYTES * (image.width * image.height + width * image.height + width * height))
    meter.spend(TAPS, width * image.height * across + width * height * down)


def _shortest_edge(height: int, width: int, edge: int) -> tuple[int, int]:
    """The size with the shorter side `edge` and the longer one in proportion, rounded down."""
    return (edge, int(edge * width / height)) if height <= width else (int(edge * height / width), edge)


def _center_crop(image: Image.Image, profile: bytes | None, height: int, width: int, meter: Meter) -> Image.Image:
    """Cut out the middle as sRGB; what lies outside the image is black."""
    top, left = (image.height - height) // 2, (image.width - width) // 2
    box = (max(left, 0), max(top, 0), min(left + width, image.width), min(top + height, image.height))
    middle = to_srgb(image.crop(box), profile, meter)
    if middle.size == (width, height):
        return middle
    canvas = Image.new("RGB", (width, height))
    canvas.paste(middle, (max(-left, 0), max(-top, 0)))
    return canvas
