"""An image file's structure -> what decoding it costs, spent before Pillow sees the file."""

from __future__ import annotations

from handlers.headers.bmp import read_bmp
from handlers.headers.directory import ORDERS
from handlers.headers.gif import read_gif
from handlers.headers.heif import read_heif
from handlers.headers.jpeg import read_jpeg
from handlers.headers.png import read_png
from handlers.headers.tiff import read_tiff
from handlers.headers.webp import read_webp
from handlers.meter import Extent, Meter

JPEG, PNG, GIFS, BMP = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", (b"GIF87a", b"GIF89a"), b"BM"
RIFF, WEBP, FILE_TYPE = b"RIFF", b"WEBP", b"ftyp"


def examine(data: bytes, least_side: int, meter: Meter) -> Extent | None:
    """Spend what decoding the file costs; its extent, None for a file of no format that is read.

    `least_side` is image.py's. Raises TooLarge where it costs more than is left, MalformedRequest where two readers
    could understand the file differently.
    """
    if data.startswith(JPEG):
        return read_jpeg(data, least_side, meter)
    if data.startswith(PNG):
        return read_png(data, meter)
    if data.startswith(GIFS):
        return read_gif(data, meter)
    if data.startswith(RIFF) and data[8:12] == WEBP:
        return read_webp(data, meter)
    if data.startswith(BMP):
        return read_bmp(data, meter)
    if data[4:8] == FILE_TYPE:
        return read_heif(data, meter)
    return read_tiff(data, meter) if data[:2] in ORDERS else None
