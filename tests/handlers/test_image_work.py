"""What an image may cost is counted in its structure: what is too much is refused before Pillow sees the file."""

import io
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.hostile import slow_avif, slow_jpeg, slow_png, slow_tiff, slow_webp
from benchmarks.hostile.pictures import album
from benchmarks.hostile.slow import IMAGES, takes_a_side
from handlers.errors import MalformedRequest, RequestError, TooLarge, UnsupportedMedia
from handlers.headers.bits import Bits
from handlers.headers.examine import examine
from handlers.headers.hevc import read_hevc
from handlers.image import open_image, resize
from handlers.meter import MAX_SIDE, Meter
from handlers.settings import ImageSettings, Options
from handlers.work import NANOSECONDS_PER_MS, Work
from tests.handlers.pictures import encode, picture, rgb_profile

LIMIT = Options().max_pixels
SETTINGS = ImageSettings((32, 32), Image.Resampling.BICUBIC, 1 / 255, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


@pytest.fixture
def _no_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Pillow was asked")

    monkeypatch.setattr(Image, "open", refuse)


TOO_MUCH: dict[str, tuple[Callable[[], bytes], str]] = {
    "JPEG of scans": (lambda: slow_jpeg.scans(12_000, 8000), "scans for its size"),
    "JPEG of refining scans": (lambda: slow_jpeg.scans(500, 8000, refining=True), "refining scans"),
    "JPEG of tiny scans": (lambda: slow_jpeg.scans(500_000, 8), "scans"),
    "JPEG in arithmetic coding": (lambda: slow_jpeg.arithmetic(8000), "arithmetic-coded blocks"),
    "JPEG without detail": (lambda: slow_jpeg.means_only(7900), "pixels"),
    "JPEG of comments": (lambda: slow_jpeg.KINDS["JPEG of comments"](1_000_000), "segments"),
    "JPEG of fill": (lambda: slow_jpeg.KINDS["JPEG of fill"](15_000_000), "bytes between its segments"),
    "JPEG of pieces of EXIF": (lambda: slow_jpeg.exif_pieces(100_000), "metadata"),
    "JPEG of tables": (lambda: slow_jpeg.KINDS["JPEG of tables"](300), "bytes of tables"),
    "JPEG of Photoshop blocks": (lambda: slow_jpeg.photoshop(1_500_000), "Photoshop blocks"),
    "PNG column": (lambda: slow_png.header(1, 60_000_000), "Each side"),
    "PNG of colour profiles": (
        lambda: slow_png.KINDS["PNG of colour profiles"](2000),
        "packed text",
    ),
    "PNG of packed text": (lambda: slow_png.KINDS["PNG of packed text"](100), "bytes of text"),
    "PNG of empty data": (lambda: slow_png.KINDS["PNG of empty data"](1_000_000), "chunks"),
    "PNG of lines of EXIF": (lambda: slow_png.raw_exif(15_000_000), "bytes of EXIF"),
    "PNG of numbers of EXIF": (lambda: slow_png.exif_numbers(4_000_000), "metadata numbers"),
    "PNG of deep alpha": (lambda: slow_png.header(8000, 8000, 16, 6), "bytes of pixels"),
    "PNG, interlaced": (lambda: slow_png.header(8000, 8000, 8, 6, interlaced=True), "pixels"),
    "GIF of blocks": (lambda: slow_png.KINDS["GIF of blocks"](9_000_000), "blocks before its first frame"),
    "GIF of rubbish": (lambda: slow_png.KINDS["GIF of rubbish"](19_000_000), "bytes between its blocks"),
    "BMP of ends of lines": (lambda: slow_png.KINDS["BMP of ends of lines"](8000), "run-length coded pixels"),
    "WebP of frames": (lambda: slow_webp.webp_frames(450_000), "chunks"),
    "TIFF of strips": (lambda: slow_tiff.listed_strips(1_200_000), "metadata numbers|strips or tiles"),
    "TIFF of large tiles": (lambda: slow_tiff.tiles(30_000, slow_tiff.DEFLATE, b"x"), "pixels|MB"),
    "TIFF of reversed bits": (lambda: slow_tiff.reversed_bits(60_000), "bytes in reversed bit order"),
    "TIFF of entries": (lambda: slow_tiff.unknown_tags(20_000), "metadata entries"),
    "TIFF of numbers": (lambda: slow_tiff.numbers(15_000_000), "metadata numbers"),
    "TIFF of fractions": (lambda: slow_tiff.fractions(500_000), "metadata fractions"),
    "TIFF of scans": (lambda: slow_tiff.scanned(100), "JPEG-coded pixels"),
    "AVIF of items": (lambda: slow_avif.items(50_000), "items"),
    "AVIF of boxes": (lambda: slow_avif.loose_boxes(2_000_000), "boxes"),
    "AVIF of frames": (lambda: slow_avif.frames(2_000), "pixels"),
}


@pytest.mark.usefixtures("_no_decoder")
@pytest.mark.parametrize("kind", TOO_MUCH)
def test_what_costs_too_much_is_refused_before_pillow_sees_it(kind: str) -> None:
    """Each sentence names what there was too much of."""
    make, reason = TOO_MUCH[kind]
    data = make()
    assert len(data) <= Options().max_image_bytes
    with pytest.raises(TooLarge, match=reason):
        open_image(data, LIMIT)


@pytest.mark.usefixtures("_no_decoder")
def test_coded_data_that_are_larger_than_the_file_says_are_counted() -> None:
    """Decoders look at what is coded, before they compare it."""
    configuration, data = slow_avif._coded(512)
    with pytest.raises(TooLarge, match="pixels"):
        open_image(slow_avif.built([data] * 300, configuration, (16, 16)), LIMIT)


@pytest.mark.parametrize("picture", album(), ids=lambda one: one.name)
def test_the_sides_that_are_counted_are_those_that_pillow_finds(picture: object) -> None:
    name, data = getattr(picture, "name", ""), getattr(picture, "data", b"")
    extent = examine(data, 0, Meter(Work()))
    assert extent is not None, name
    with Image.open(io.BytesIO(data)) as image:
        assert {extent.width, extent.height} == set(image.size)


@pytest.mark.parametrize("kind", IMAGES)
def test_a_small_file_of_each_kind_is_no_harm(kind: str) -> None:
    """It is a picture or none, within the work of one request."""
    make, work = IMAGES[kind], Work()
    with suppress(MalformedRequest, UnsupportedMedia):
        resize(open_image(make(16 if takes_a_side(make) else 2), LIMIT, work=work), SETTINGS, work)


def test_the_images_of_one_request_share_its_work() -> None:
    photo = encode(picture(400, 300), "JPEG")
    one = Work()
    resize(open_image(photo, LIMIT, work=one), SETTINGS, one)
    spent = Work().left - one.left
    assert spent > 0
    together = Work()
    for _ in range(2):
        resize(open_image(photo, LIMIT, work=together), SETTINGS, together)
    assert Work().left - together.left == 2 * spent
    scarce = Work(1 + spent // NANOSECONDS_PER_MS)
    open_image(photo, LIMIT, work=scarce)
    with pytest.raises(TooLarge):
        open_image(photo, LIMIT, work=scarce)


@pytest.mark.parametrize(
    ("mode", "side"), [("RGB", 12_000_000), ("L", 48_000_000)], ids=["a photo of 12 MP", "grey of 48 MP"]
)
def test_what_an_honest_photo_costs_leaves_room(mode: str, side: int) -> None:
    """A progressive JPEG of 12 megapixels with a profile, and a whole one of 48."""
    height = int((side * 3 / 4) ** 0.5)
    size = (height * 4 // 3, height)
    data = encode(Image.new(mode, size), "JPEG", progressive=mode == "RGB", icc_profile=rgb_profile())
    work = Work()
    extent = examine(data, 0, Meter(work, LIMIT))
    assert extent is not None
    assert (extent.width, extent.height) == size
    assert work.left > Work().left / 4


def test_a_sliver_that_grows_on_the_way_is_refused() -> None:
    settings = ImageSettings((64, 64), 3, 1 / 255, (0.5,) * 3, (0.5,) * 3, shortest_edge=256, crop=(224, 224))
    image = Image.new("RGB", (70, MAX_SIDE))
    with pytest.raises(TooLarge):
        resize(image, settings, Work(500))
    with pytest.raises(TooLarge, match="crop it"):
        resize(Image.new("RGB", (1, MAX_SIDE)), settings)


def test_a_profile_is_spent_before_it_is_used() -> None:
    image = Image.new("RGB", (8, 8))
    image.info = {"icc_profile": slow_tiff.table_profile(9, 3)}
    with pytest.raises(TooLarge, match="colour profiles of tables"):
        resize(image, SETTINGS, Work(20))


def test_two_entries_for_one_part_of_a_tiff_are_refused() -> None:
    """Pillow and libtiff might each take another one."""
    data = encode(picture(8, 8), "TIFF")
    place = struct.unpack_from("<I", data, 4)[0]
    count = struct.unpack_from("<H", data, place)[0]
    entries = data[place + 2 : place + 2 + 12 * count]
    doubled = data[:place] + struct.pack("<H", count + 1) + entries + entries[:12] + bytes(4)
    with pytest.raises(RequestError) as caught:
        open_image(doubled, LIMIT)
    assert caught.value.status == 400
    assert "two entries" in str(caught.value)


def test_bits_are_read_from_the_most_significant() -> None:
    bits = Bits(bytes([0b10100110, 0b10000000]))
    assert [bits.take(3), bits.flag(), bits.exponential(), bits.take(40)] == [5, False, 2, 128 << 31]


def written(*fields: tuple[int, int]) -> bytes:
    """Values of so many bits each."""
    text = "".join(f"{value:0{count}b}" for value, count in fields)
    return int(text.ljust(-(-len(text) // 8) * 8, "0"), 2).to_bytes(-(-len(text) // 8), "big")


def golomb(value: int) -> tuple[int, int]:
    """An exponential-Golomb code."""
    return value + 1, 2 * (value + 1).bit_length() - 1


def test_pictures_of_hevc_are_counted_in_its_units() -> None:
    """Two pictures of 4000 x 3000, and a sequence of its own inside the data that is larger."""

    def parameters(width: int, height: int) -> bytes:
        fields = [(0, 4), (0, 3), (1, 1), (0, 64), (0, 32), golomb(0), golomb(1), golomb(width), golomb(height), (0, 1)]
        return bytes([33 << 1, 1]) + written(*fields, golomb(0), golomb(0))

    stored = parameters(4000, 3000)
    configuration = bytes(21) + b"\3\1" + bytes([33]) + struct.pack(">HH", 1, len(stored)) + stored
    slices = [bytes([19 << 1, 1, first << 7]) for first in (1, 0, 1)]
    data = b"".join(struct.pack(">I", len(unit)) + unit for unit in slices)
    coded = read_hevc(configuration, data, Meter(Work()))
    assert (coded.pixels, coded.largest) == (24_000_000, 12_000_000)
    larger = parameters(8000, 6000)
    coded = read_hevc(configuration, struct.pack(">I", len(larger)) + larger + data, Meter(Work()))
    assert coded.largest == 48_000_000


def test_no_module_of_the_readers_imports_pillow_for_more_than_a_limit() -> None:
    """What reads hostile structure is Python of our own."""
    readers = list((Path(__file__).parents[2] / "handlers/headers").glob("*.py"))
    assert len(readers) > 9
    for file in readers:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if "PIL" in line and "import" in line]
        assert lines in ([], ["from PIL import PngImagePlugin"])
