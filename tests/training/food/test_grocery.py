from pathlib import Path

import pytest
import torch
from PIL import Image

from training.grocery import (
    IMAGE_MEAN,
    IMAGE_STD,
    augment,
    jitter,
    load_photos,
    normalise,
    random_crop,
    read_labels,
    read_photo,
    read_split,
)

RED, BLUE = (200, 10, 20), (0, 40, 250)


def dice(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two fine apples of one coarse class, one sour cream of another; ids out of order in classes.csv."""
    (tmp_path / "classes.csv").write_text(
        "Class Name (str),Class ID (int),Coarse Class Name (str),Coarse Class ID (int)\n"
        "Arla-Sour-Cream,2,Sour-Cream,1\nPink-Lady,0,Apple,0\nRoyal-Gala,1,Apple,0\n",
        encoding="utf-8",
    )
    (tmp_path / "train.txt").write_text(
        "train/gala.png, 1, 0\ntrain/cream.png, 2, 1\n",
        encoding="utf-8",
    )
    (tmp_path / "train").mkdir()
    Image.new("RGB", (30, 50), RED).save(tmp_path / "train/gala.png")
    Image.new("RGBA", (64, 16), (*BLUE, 255)).save(tmp_path / "train/cream.png")
    return tmp_path


def test_labels_are_the_coarse_names_in_id_order_without_hyphens(folder: Path) -> None:
    assert read_labels(folder) == ["Apple", "Sour Cream"]


def test_a_split_lists_photos_with_their_coarse_class(folder: Path) -> None:
    assert read_split(folder, "train") == [(folder / "train/gala.png", 0), (folder / "train/cream.png", 1)]


def test_photos_of_any_shape_and_mode_are_squashed_to_rgb_squares(folder: Path) -> None:
    photos = load_photos(folder, "train", 8)
    assert photos.labels.tolist() == [0, 1]
    assert photos.pixels.dtype == torch.uint8
    assert photos.pixels.shape == (2, 3, 8, 8)
    for pixels, colour in zip(photos.pixels, (RED, BLUE), strict=True):
        assert torch.equal(pixels, torch.tensor(colour, dtype=torch.uint8).view(3, 1, 1).expand(3, 8, 8))


def test_the_whole_photo_is_seen_top_row_first(tmp_path: Path) -> None:
    photo = Image.new("RGB", (40, 80), "black")
    photo.paste((255, 255, 255), (0, 0, 40, 20))
    photo.save(tmp_path / "photo.png")
    rows = read_photo(tmp_path / "photo.png", 4)[0].float().mean(dim=1)
    assert rows[0] > 220
    assert rows[1:].max() < 40


def test_normalised_pixels_have_imagenet_mean_and_deviation() -> None:
    white = normalise(torch.full((1, 3, 2, 2), 255, dtype=torch.uint8))
    assert white[0, :, 0, 0].tolist() == pytest.approx(
        [(1 - m) / s for m, s in zip(IMAGE_MEAN, IMAGE_STD, strict=True)]
    )
    assert white[0, :, 0, 0].tolist() == pytest.approx([2.2489, 2.4286, 2.6400], abs=1e-4)


def test_a_crop_keeps_a_plain_colour_and_has_the_asked_size() -> None:
    plain = torch.tensor(RED, dtype=torch.uint8).view(3, 1, 1).expand(3, 20, 20)
    generator = dice()
    for _ in range(20):
        crop = random_crop(plain, 14, generator)
        assert crop.shape == (3, 14, 14)
        assert crop.mean(dim=(1, 2)).tolist() == pytest.approx(RED, abs=0.01)


def test_crops_are_parts_of_the_photo_and_about_half_are_mirrored() -> None:
    ramp = torch.arange(0, 240, 10, dtype=torch.uint8).expand(3, 24, 24)
    generator = dice()
    crops = [random_crop(ramp, 8, generator) for _ in range(200)]
    mirrored = sum(bool(crop[0, 0, 0] > crop[0, 0, -1]) for crop in crops)
    assert 75 < mirrored < 125
    widths = [float(crop[0, 0].max() - crop[0, 0].min()) for crop in crops]
    assert min(widths) < 130 < 180 < max(widths)


def test_jitter_scales_brightness_of_grey_and_stays_in_range() -> None:
    grey = torch.full((64, 3, 4, 4), 100.0)
    jittered = jitter(grey, dice())
    levels = jittered[:, 0, 0, 0]
    torch.testing.assert_close(jittered, levels.view(-1, 1, 1, 1).expand_as(jittered), rtol=1e-4, atol=0.01)
    assert 69.9 < levels.min() < 80
    assert 120 < levels.max() < 130.1
    assert jitter(torch.full((64, 3, 4, 4), 250.0), dice()).max() == 255


def test_the_same_seed_gives_the_same_views() -> None:
    photos = torch.randint(0, 256, (3, 3, 24, 24), dtype=torch.uint8, generator=dice())
    first, again, other = (augment(photos, 14, dice(seed)) for seed in (1, 1, 2))
    assert first.shape == (3, 3, 14, 14)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
