"""Every kind of file that cameras, phones, scanners and browsers write becomes the right pixels."""

import io
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import AvifImagePlugin, Image, _avif

from handlers.errors import MalformedRequest, UnsupportedMedia
from handlers.image import limit_threads, open_image
from tests.handlers.opened import LIMIT, pixels, row
from tests.handlers.pictures import BLACK, CYAN, RED, WHITE, encode, gif, grey, picture, png


def far(found: Any, image: Image.Image) -> int:
    """The largest difference of any pixel."""
    return int(abs(found - np.asarray(image.convert("RGB"))).max())


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_jpeg_of_every_kind(mode: str, progressive: bool) -> None:
    """pytorch/serve#65: also the inverted inks that Adobe's programs write, as Pillow does."""
    image = picture(48, 40).convert(mode)
    assert far(pixels(encode(image, "JPEG", quality=97, subsampling=0, progressive=progressive)), image) <= 16


def test_ycck_is_ycc_of_the_inks() -> None:
    """As Photoshop stores CMYK: the marker of Adobe, transform 2, says so."""
    inks = Image.new("CMYK", (8, 8), (0, 200, 255, 30))
    data = bytearray(encode(inks, "JPEG", quality=100))
    place = data.index(b"Adobe")
    assert data[place + 11] == 0
    data[place + 11] = 2
    # Stored inverted: the bytes 255, 55, 0 are now Y, Cb and Cr.
    luma, blue, red = 255, 55 - 128, 0 - 128
    rgb = np.clip([luma + 1.402 * red, luma - 0.344136 * blue - 0.714136 * red, luma + 1.772 * blue], 0, 255)
    # libjpeg's YCCK to CMYK takes the complement of that RGB, and Pillow inverts all four: they are the inks.
    expected = [(255 - ink) * (255 - 30) / 255 for ink in rgb]
    assert pixels(bytes(data))[4, 4].tolist() == pytest.approx(expected, abs=4)


@pytest.mark.parametrize(
    ("depth", "colour_type", "line", "chunks", "expected"),
    [
        (1, 0, b"\x50", [], [BLACK, WHITE, BLACK, WHITE]),
        (2, 0, b"\x1b", [], [grey(0), grey(85), grey(170), grey(255)]),
        (8, 0, bytes([0, 1, 200, 255]), [(b"tRNS", b"\0\1")], [BLACK, WHITE, grey(200), WHITE]),
        (16, 0, bytes([0, 255, 1, 0, 128, 7, 255, 255]), [], [grey(0), grey(1), grey(128), WHITE]),
        (16, 0, bytes([0, 255, 1, 0, 1, 1, 9, 9]), [(b"tRNS", b"\1\0")], [BLACK, WHITE, grey(1), grey(9)]),
        (16, 2, bytes([255, 9, 0, 9, 0, 9] * 4), [], [RED] * 4),
        (16, 2, bytes([255, 9, 0, 9, 0, 9] * 4), [(b"tRNS", bytes([255, 8, 0, 9, 0, 9]))], [RED] * 4),
        (8, 2, bytes([*RED, *CYAN, *RED, *CYAN]), [(b"tRNS", bytes([0, 255, 0, 0, 0, 0]))], [WHITE, CYAN, WHITE, CYAN]),
        (4, 3, b"\x01\x20", [(b"PLTE", bytes([*RED, *CYAN, 7, 7, 7]))], [RED, CYAN, grey(7), RED]),
        (
            2,
            3,
            b"\x18",
            [(b"PLTE", bytes([*RED, *CYAN, 7, 7, 7])), (b"tRNS", b"\xff\x00")],
            [RED, WHITE, grey(7), RED],
        ),
        (16, 4, bytes([9, 9, 255, 255, 9, 9, 0, 0, 77, 0, 255, 255, 0, 0, 128, 128]), [], None),
        (16, 6, (bytes([255, 0, 0, 0, 0, 0, 255, 255]) + bytes(8)) * 2, [], [RED, WHITE, RED, WHITE]),
    ],
    ids=[
        "1-bit", "2-bit", "grey+tRNS", "grey 16", "grey 16+tRNS", "RGB 16", "RGB 16+tRNS of a near colour", "RGB+tRNS",
        "palette 4", "palette 2+tRNS", "grey+alpha 16", "RGBA 16",
    ],
)  # fmt: skip
def test_a_png_of_every_kind(
    depth: int, colour_type: int, line: bytes, chunks: list[tuple[bytes, bytes]], expected: list[tuple[int, ...]] | None
) -> None:
    """pytorch/serve#65, gladiaio/gladia#668"""
    wanted = expected or [grey(9), WHITE, grey(77), grey(127)]
    assert row(png((4, 1), depth, colour_type, [line], chunks)) == wanted


def test_an_interlaced_png() -> None:
    """Adam7 sends pixels (0, 0), (4, 0), (2, 0), (6, 0) first and the odd ones last."""
    passes = [bytes([0]), bytes([4]), bytes([2, 6]), bytes([1, 3, 5, 7])]
    assert row(png((8, 1), 8, 0, passes, interlaced=True)) == [grey(value) for value in range(8)]


def test_a_png_whose_pixels_are_whole_needs_no_end() -> None:
    """What Pillow calls truncated is refused, and this it does not: no pixel is missing."""
    whole = png((2, 1), 8, 0, [bytes([5, 6])], end=False)
    assert row(whole) == [grey(5), grey(6)]
    with pytest.raises(MalformedRequest):
        open_image(whole[:-12], LIMIT)


@pytest.mark.parametrize("options", [{"lossless": True}, {"quality": 95}])
def test_a_webp_of_every_kind(options: dict[str, Any]) -> None:
    image = Image.new("RGBA", (16, 16), (200, 100, 50, 255))
    image.paste((0, 0, 0, 0), (0, 0, 8, 16))
    found = pixels(encode(image, "WEBP", **options))
    assert found[8, 13].tolist() == pytest.approx([200, 100, 50], abs=4)
    assert found[8, 2].tolist() == pytest.approx([255, 255, 255], abs=4)


def test_a_gif_whose_first_frame_is_a_part_of_the_screen() -> None:
    """Browsers leave clear what no frame has drawn; Pillow draws the background there, or clear where there is one."""
    data = gif((4, 1), (1, 0, 2, 1), 1 | 2 << 3)
    assert row(data)[1:3] == [CYAN, BLACK]
    assert row(data)[0] == row(data)[3]
    clear = gif((4, 1), (1, 0, 2, 1), 0 | 1 << 3, transparent=0)
    assert row(clear)[1:3] == [WHITE, CYAN]


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_an_avif_of_every_kind(mode: str) -> None:
    image = Image.new("RGBA", (16, 16), (90, 90, 90, 255))
    if mode == "RGBA":
        image.paste((0, 0, 0, 0), (0, 0, 8, 16))
    found = pixels(encode(image.convert(mode), "AVIF", quality=95))
    assert found[8, 13].tolist() == pytest.approx([90, 90, 90], abs=4)
    assert found[8, 2].tolist() == pytest.approx([255 if mode == "RGBA" else 90] * 3, abs=4)


def test_the_first_picture_of_an_mpo_and_an_avif_sequence() -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in (RED, CYAN)]
    for file_format in ("MPO", "AVIF"):
        data = encode(frames[0], file_format, save_all=True, append_images=frames[1:])
        assert getattr(Image.open(io.BytesIO(data)), "n_frames", 1) == 2
        assert pixels(data)[8, 8].tolist() == pytest.approx(RED, abs=6)


@pytest.fixture
def _as_before() -> Iterator[None]:
    before = AvifImagePlugin.DEFAULT_MAX_THREADS
    yield
    AvifImagePlugin.DEFAULT_MAX_THREADS = before


@pytest.mark.usefixtures("_as_before")
def test_avif_is_decoded_by_the_workers_own_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytorch/serve#2432: workers times every core is more than there are."""
    asked = []
    decoder = _avif.AvifDecoder

    def note(data: bytes, codec: str, threads: int) -> Any:
        asked.append(threads)
        return decoder(data, codec, threads)

    monkeypatch.setattr(_avif, "AvifDecoder", note)
    limit_threads(3)
    pixels(encode(picture(16, 16), "AVIF"))
    assert asked == [3]


HEIC = struct.pack(">I", 24) + b"ftypheic" + b"\0\0\0\0mif1heic"
# Some cameras name the general format first.
BURST = struct.pack(">I", 28) + b"ftypmsf1" + b"\0\0\0\0msf1mif1hevc"
AVIF = struct.pack(">I", 24) + b"ftypavif" + b"\0\0\0\0mif1miaf" + b"hevcheic"


def test_a_broken_avif_is_not_taken_for_heic() -> None:
    """Nor is what stands behind the list of brands."""
    with pytest.raises(MalformedRequest):
        open_image(AVIF, LIMIT)


@pytest.mark.parametrize("data", [HEIC, BURST])
def test_heic_is_read_where_pillow_heif_is_installed_and_else_named(data: bytes) -> None:
    try:
        import pillow_heif
    except ImportError:
        with pytest.raises(UnsupportedMedia, match="does not read HEIC pictures: send JPEG") as caught:
            open_image(data, LIMIT)
        assert caught.value.status == 415
    else:
        stream = io.BytesIO()
        pillow_heif.from_pillow(Image.new("RGB", (64, 64), (200, 100, 50))).save(stream, quality=95)
        assert pixels(stream.getvalue())[8, 8].tolist() == pytest.approx([200, 100, 50], abs=5)
        with pytest.raises(MalformedRequest):
            open_image(data, LIMIT)
