"""An image file becomes an upright RGB picture, or a 4xx that says why not."""

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile

from handlers.errors import MalformedRequest, TooLarge, UnsupportedMedia
from handlers.image import open_image
from tests.handlers.pictures import BLACK, CYAN, RED, WHITE, encode, grey, picture

ROOT = Path(__file__).parents[2]
LIMIT = 64_000_000
HALF_RED = (255, 127, 127)


def pixels(data: bytes) -> list[list[tuple[int, ...]]]:
    """Rows of RGB values."""
    image = open_image(data, LIMIT)
    assert image.mode == "RGB"
    return [[tuple(pixel) for pixel in row] for row in np.asarray(image).tolist()]


def palette(transparency: bytes | int | None) -> bytes:
    """Three pixels: red, black, cyan, of a palette; `transparency` is PNG's tRNS."""
    image = Image.new("P", (3, 1))
    image.putpalette([*RED, *BLACK, *CYAN])
    image.putdata([0, 1, 2])
    return encode(image) if transparency is None else encode(image, transparency=transparency)


def one_row(mode: str, values: list[Any]) -> Image.Image:
    image = Image.new(mode, (len(values), 1))
    image.putdata(values)
    return image


MODES = (
    "RGB",
    "L",
    "L+tRNS",
    "LA",
    "RGBA",
    "RGB+tRNS",
    "P",
    "P+index",
    "P+alpha",
    "1",
    "I;16",
    "I;16-TIFF",
    "I",
    "CMYK",
)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (encode(one_row("RGB", [RED, CYAN])), [RED, CYAN]),
        (encode(one_row("L", [0, 77, 255])), [grey(0), grey(77), grey(255)]),
        (encode(one_row("L", [0, 77]), transparency=77), [grey(0), WHITE]),
        (encode(one_row("LA", [(77, 255), (77, 0), (0, 128)])), [grey(77), WHITE, grey(127)]),
        (encode(one_row("RGBA", [(*RED, 255), (*RED, 0), (*RED, 128)])), [RED, WHITE, HALF_RED]),
        (encode(one_row("RGB", [RED, CYAN]), transparency=RED), [WHITE, CYAN]),
        (palette(None), [RED, BLACK, CYAN]),
        (palette(1), [RED, WHITE, CYAN]),
        (palette(b"\x80\x00\xff"), [HALF_RED, WHITE, CYAN]),
        (encode(one_row("1", [0, 255, 255])), [BLACK, WHITE, WHITE]),
        (encode(one_row("I;16", [0, 255, 256, 0x4D80, 65535])), [grey(0), grey(0), grey(1), grey(0x4D), grey(255)]),
        (encode(one_row("I;16", [0, 0x4D80, 65535]), "TIFF"), [grey(0), grey(0x4D), grey(255)]),
        (encode(one_row("I", [-5, 0x4D80, 70000]), "TIFF"), [grey(0), grey(0x4D), grey(255)]),
        (encode(one_row("CMYK", [(0, 255, 255, 0), (255, 0, 0, 0), (0, 0, 0, 255)]), "TIFF"), [RED, CYAN, BLACK]),
    ],
    ids=MODES,
)
def test_every_mode_becomes_the_right_rgb(data: bytes, expected: list[tuple[int, ...]]) -> None:
    """pytorch/serve#65, gladiaio/gladia#668: transparency is flattened on white."""
    assert pixels(data) == [expected]


@pytest.mark.parametrize(("mode", "colour"), [("CMYK", (0, 255, 255, 0)), ("L", 76), ("YCbCr", (76, 85, 255))])
def test_every_mode_of_a_jpeg_becomes_rgb(mode: str, colour: Any) -> None:
    expected = grey(76) if mode == "L" else RED
    (row, *_) = pixels(encode(Image.new(mode, (8, 8), colour), "JPEG", quality=95))
    assert row[0] == pytest.approx(expected, abs=4)


def test_floating_point_pixels_are_an_unsupported_medium() -> None:
    with pytest.raises(UnsupportedMedia, match="floating-point"):
        open_image(encode(Image.new("F", (2, 2), 0.5), "TIFF"), LIMIT)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "MPO"])
def test_every_promised_format_is_read(file_format: str) -> None:
    image = open_image(encode(Image.new("RGB", (16, 9), (250, 120, 10)), file_format), LIMIT)
    assert image.size == (16, 9)
    assert image.getpixel((3, 3)) == pytest.approx((250, 120, 10), abs=8)


@pytest.mark.parametrize("file_format", ["EPS", "PDF", "ICO", "PPM", "TGA", "PCX", "JPEG2000"])
def test_every_other_format_is_refused(file_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", start)
    data = encode(Image.new("RGB", (16, 16), RED), file_format)
    with pytest.raises(MalformedRequest, match="JPEG, PNG, WebP"):
        open_image(data, LIMIT)


# Where each orientation of EXIF puts the stored picture's first row and first column, undone.
STORED_AS = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("orientation", STORED_AS)
@pytest.mark.parametrize("file_format", ["PNG", "WEBP", "TIFF", "JPEG"])
def test_every_orientation_gives_the_same_upright_picture(orientation: int, file_format: str) -> None:
    """sgl-project/sglang#33464, mistralai/mistral-common#330"""
    upright = Image.new("RGB", (48, 32), RED)
    upright.paste(CYAN, (0, 0, 16, 16))
    upright.paste(WHITE, (32, 0, 48, 16))
    turn = STORED_AS[orientation]
    stored = upright if turn is None else upright.transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = orientation
    options: dict[str, Any] = {"lossless": True} if file_format == "WEBP" else {}
    if file_format == "JPEG":
        options = {"quality": 100, "subsampling": 0}
    read = open_image(encode(stored, file_format, exif=exif, **options), LIMIT)
    assert read.size == (48, 32)
    difference = np.asarray(read).astype(int) - np.asarray(upright)
    assert abs(difference).max() <= (3 if file_format == "JPEG" else 0)


@pytest.mark.parametrize("exif", [b"Exif\0\0garbage!", b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", b"nonsense"])
@pytest.mark.parametrize("file_format", ["PNG", "JPEG", "WEBP"])
def test_broken_exif_does_not_spoil_a_whole_picture(exif: bytes, file_format: str) -> None:
    (row, *_) = pixels(encode(Image.new("RGB", (8, 8), (200, 100, 50)), file_format, exif=exif))
    assert row[0] == pytest.approx((200, 100, 50), abs=4)


WHOLE = {name: encode(picture(64, 48), name) for name in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")}


@pytest.mark.parametrize("file_format", WHOLE)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.97])
def test_a_truncated_file_is_malformed(file_format: str, share: float) -> None:
    """microsoft/Biodiversity#575, awslabs/multi-model-server#621"""
    data = WHOLE[file_format]
    with pytest.raises(MalformedRequest, match="not a whole image file") as caught:
        open_image(data[: int(len(data) * share)], LIMIT)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"junk",
        b"\0" * 1000,
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff\xe0",
        b"GIF89a",
        b"<svg/>",
        b"%PDF-1.4",
        b"II*\0",
    ],
)
def test_junk_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedRequest, match="not a whole image file"):
        open_image(data, LIMIT)


def png_header(width: int, height: int) -> bytes:
    """A 1-bit PNG that claims a size and has no pixel data that anybody could decode."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"junk") + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    "size", [(20_000, 20_000), (9_000, 9_000), (64_000_001, 1), (1, 64_000_001), (2**31 - 1, 2**31 - 1)]
)
def test_a_bomb_is_refused_before_a_pixel_is_decoded(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """pytorch/serve#1120, pytorch/serve#1271"""

    def load(self: ImageFile.ImageFile) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    with pytest.raises(TooLarge, match="at most 64000000 pixels") as caught:
        open_image(png_header(*size), LIMIT)
    assert caught.value.status == 413


def test_the_pixel_limit_is_allowed_itself() -> None:
    data = encode(Image.new("1", (100, 50)))
    assert open_image(data, 5000).size == (100, 50)
    with pytest.raises(TooLarge, match="at most 4999 pixels"):
        open_image(data, 4999)


def test_a_large_picture_below_the_limit_warns_nobody(tmp_path: Path) -> None:
    """Pillow warns on standard error, which TorchServe logs, from a size on that the operator may allow."""
    (tmp_path / "large.png").write_bytes(encode(Image.new("1", (100, 90))))
    code = (
        "import sys; from PIL import Image; from handlers.image import open_image; Image.MAX_IMAGE_PIXELS = 8_000;"
        "print(open_image(open(sys.argv[1], 'rb').read(), 10_000).size)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "large.png")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("(100, 90)\n", "")


@pytest.mark.parametrize(
    ("file_format", "options"),
    [("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {}), ("TIFF", {})],
)
def test_the_first_frame_of_an_animation_is_the_picture(file_format: str, options: dict[str, Any]) -> None:
    frames = [Image.new("RGB", (12, 10), colour) for colour in (RED, CYAN, BLACK)]
    data = encode(frames[0], file_format, save_all=True, append_images=frames[1:], **options)
    with Image.open(io.BytesIO(data)) as animation:
        assert getattr(animation, "n_frames", 1) == 3
    assert pixels(data) == [[RED] * 12] * 10
