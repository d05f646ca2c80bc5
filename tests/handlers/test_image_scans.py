"""BMP and TIFF: what scanners, microscopes, faxes and printers write becomes the right pixels."""

import struct

import numpy as np
import pytest

from tests.handlers.opened import pixels, row
from tests.handlers.pictures import BLACK, CYAN, RED, WHITE, encode, grey, picture, strip, tiff


def bmp(bits: int, compression: int, size: tuple[int, int], palette: bytes, body: bytes) -> bytes:
    header = struct.pack("<IiiHHIIiiII", 40, *size, 1, bits, compression, len(body), 0, 0, len(palette) // 4, 0)
    start = 14 + len(header) + len(palette)
    return b"BM" + struct.pack("<IHHI", start + len(body), 0, 0, start) + header + palette + body


BLUE_GREEN_RED = bytes([0, 0, 255, 0, 255, 255, 0, 0])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bmp(1, 0, (4, 1), BLUE_GREEN_RED, b"\x50\0\0\0"), [RED, CYAN, RED, CYAN]),
        (bmp(4, 0, (2, 1), BLUE_GREEN_RED, b"\x10\0\0\0"), [CYAN, RED]),
        (bmp(8, 1, (4, 1), BLUE_GREEN_RED, bytes([3, 1, 1, 0, 0, 1])), [CYAN, CYAN, CYAN, RED]),
        (bmp(4, 2, (4, 1), BLUE_GREEN_RED, bytes([4, 0x10, 0, 1])), [CYAN, RED, CYAN, RED]),
        (bmp(16, 0, (2, 1), b"", struct.pack("<HH", 0x7C00, 0x03FF)), [RED, CYAN]),
        (bmp(24, 0, (2, 1), b"", bytes([0, 0, 255, 255, 255, 0, 0, 0])), [RED, CYAN]),
        (bmp(32, 0, (2, 1), b"", bytes([0, 0, 255, 0, 255, 255, 0, 0])), [RED, CYAN]),
        (bmp(24, 0, (1, -2), b"", bytes([0, 0, 255, 0, 255, 255, 0, 0])), [RED]),
    ],
    ids=["1-bit", "4-bit", "RLE 8", "RLE 4", "16-bit", "24-bit", "32-bit", "top down"],
)
def test_a_bmp_of_every_kind(data: bytes, expected: list[tuple[int, ...]]) -> None:
    assert row(data) == expected


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_tiff_of_every_kind_in_both_byte_orders(order: str) -> None:
    def words(*values: int) -> bytes:
        return struct.pack(f"{order}{len(values)}H", *values)

    assert row(tiff(order, strip((1,), 1, 1), b"\x50")) == [BLACK, WHITE, BLACK, WHITE]
    assert row(tiff(order, strip((1,), 0, 1), b"\x50")) == [WHITE, BLACK, WHITE, BLACK]
    assert row(tiff(order, strip((8,), 0, 4), bytes([0, 1, 128, 255]))) == [WHITE, grey(254), grey(127), BLACK]
    assert row(tiff(order, strip((16,), 1, 8), words(0, 256, 0x4D80, 65535))) == [BLACK, grey(1), grey(0x4D), WHITE]
    rgb = words(65535, 0, 0, 0, 65535, 65535) * 2
    assert row(tiff(order, strip((16,) * 3, 2, 24), rgb)) == [RED, CYAN, RED, CYAN]
    inks = bytes([0, 255, 255, 0, 255, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0, 0])
    assert row(tiff(order, strip((8,) * 4, 5, 16), inks)) == [RED, CYAN, BLACK, WHITE]
    clear = bytes([*RED, 255, *RED, 0] * 2)
    assert row(tiff(order, strip((8,) * 4, 2, 16, t338=(2,)), clear)) == [RED, WHITE, RED, WHITE]


def test_12_bit_grey_uses_the_whole_range() -> None:
    """Microscopes and scanners; read as 16 bits it would be black."""
    data = tiff("<", strip((12,), 1, 6), bytes([0x00, 0x08, 0x00, 0xFF, 0xF0, 0x10]))
    assert row(data) == [grey(0), grey(128), grey(255), grey(1)]


def test_lab_is_a_colour_space_of_its_own() -> None:
    """L* 50 is 119 in sRGB."""
    found = row(tiff("<", strip((8,) * 3, 8, 12), bytes([0, 0, 0, 128, 0, 0, 255, 0, 0, 128, 0, 0])))
    assert found[0] == pytest.approx(BLACK, abs=1)
    assert found[1] == pytest.approx(grey(119), abs=3)
    assert found[2] == pytest.approx(WHITE, abs=1)


@pytest.mark.parametrize(
    "compression", ["raw", "packbits", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "tiff_lzma", "zstd"]
)
def test_a_compressed_tiff(compression: str) -> None:
    image = picture(40, 30)
    found = pixels(encode(image, "TIFF", compression=compression))
    np.testing.assert_array_equal(found, np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("compression", ["group3", "group4", "tiff_ccitt"])
def test_a_tiff_of_a_fax(compression: str) -> None:
    image = picture(40, 30).convert("1")
    found = pixels(encode(image, "TIFF", compression=compression))
    np.testing.assert_array_equal(found, np.asarray(image.convert("RGB")))


def test_a_tiled_tiff() -> None:
    """Two tiles of 16 x 16; what lies past the edge of the picture is not shown."""
    tiles = bytes([10]) * 256 + bytes([20]) * 256
    tags = {256: (20,), 257: (16,), 258: (8,), 259: (1,), 262: (1,), 277: (1,)}
    found = pixels(tiff("<", {**tags, 322: (16,), 323: (16,), 324: (8, 264), 325: (256, 256)}, tiles))
    assert found.shape == (16, 20, 3)
    assert found[:, :16].min() == found[:, :16].max() == 10
    assert found[:, 16:].min() == found[:, 16:].max() == 20
