"""What a hostile or broken file may cost, and who hears of it."""

import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from handlers.errors import MalformedRequest, TooLarge
from handlers.image import open_image
from tests.handlers.pictures import RED, encode, gif, picture, png, strip, tiff

ROOT = Path(__file__).parents[2]
LIMIT = 1_000_000


def test_a_gif_whose_frame_is_larger_than_its_screen_is_held_to_the_limit() -> None:
    with pytest.raises(TooLarge):
        open_image(gif((1, 1), (0, 0, 60_000, 60_000), 0), LIMIT)


@pytest.mark.timeout(60)
def test_the_gif_that_claims_four_thousand_megapixels() -> None:
    """pytorch/serve#1120: 50 bytes."""
    bomb = gif((65_535, 65_535), (0, 0, 65_535, 65_535), 0)
    assert len(bomb) < 60
    with pytest.raises(TooLarge, match="at most 64000000 pixels"):
        open_image(bomb, 64_000_000)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", [b"zTXt", b"iTXt", b"iCCP"])
def test_metadata_that_unpacks_to_a_hundred_megabytes_is_not_unpacked(name: bytes) -> None:
    prefix = b"key\0\1\0\0\0" if name == b"iTXt" else b"key\0\0"
    bomb = png((2, 1), 8, 0, [bytes([5, 6])], [(name, prefix + zlib.compress(bytes(100_000_000)))])
    assert len(bomb) < 100_000 + 200
    with pytest.raises(MalformedRequest):
        open_image(bomb, LIMIT)


def test_a_large_comment_or_exif_is_no_burden() -> None:
    info = PngImagePlugin.PngInfo()
    info.add_itxt("XML:com.adobe.xmp", "x" * 3_000_000, zip=True)
    assert np.asarray(open_image(encode(Image.new("RGB", (2, 1), RED), pnginfo=info), LIMIT)).tolist() == [[[*RED]] * 2]
    exif = Image.Exif()
    exif[0x9286] = b"x" * 60_000
    assert np.asarray(open_image(encode(Image.new("L", (8, 8), 9), "JPEG", exif=exif), LIMIT)).max() <= 11


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("file_format", ["JPEG", "AVIF"])
def test_a_progressive_jpeg_or_an_avif_that_is_cut_is_refused(file_format: str, share: float) -> None:
    """microsoft/Biodiversity#575: the scans that came would show a blurred picture."""
    options = {"progressive": True} if file_format == "JPEG" else {}
    data = encode(picture(200, 160), file_format, quality=90, **options)
    with pytest.raises(MalformedRequest):
        open_image(data[: int(len(data) * share)], LIMIT)


def test_nothing_is_written_to_standard_error(tmp_path: Path) -> None:
    """TorchServe logs every line of it. Warnings of Python, the log of Pillow and what libtiff prints itself."""
    broken = bytearray(encode(picture(40, 30), "TIFF", compression="tiff_adobe_deflate"))
    broken[60:64] = b"\xff\0\xff\0"
    samples = strip((8,), 1, 4, t277=(65_535,))
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\xff\xff\xff\xff\xff\xff"
    files = [bytes(broken), tiff("<", samples, b"1234"), encode(Image.new("P", (2, 1)), transparency=b"\0\1")]
    files.append(encode(picture(8, 8), "JPEG")[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif)
    files.append(encode(picture(8, 8), exif=exif))
    for place, data in enumerate(files):
        (tmp_path / f"{place}.bin").write_bytes(data)
    code = (
        "import sys, pathlib\nfrom handlers.image import open_image\nfrom handlers.errors import RequestError\n"
        "for file in sorted(pathlib.Path(sys.argv[1]).iterdir()):\n"
        "    try: print(open_image(file.read_bytes(), 9999).size)\n"
        "    except RequestError as error: print(error.status)\n"
        "print('still there', file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n") == ["400", "400", "(2, 1)", "400", "(8, 8)", ""]
    assert ran.stderr == "still there\n"
