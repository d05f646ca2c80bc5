import pytest
import torch

from training.food.augment import Augmentation, dice, jitter, mix, order, random_crop, views
from training.food.randaugment import OPERATIONS

RED = (200, 10, 20)


def noise(count: int, side: int = 24) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(5))


def test_a_crop_keeps_a_plain_colour_and_has_the_asked_size() -> None:
    plain = torch.tensor(RED, dtype=torch.uint8).view(3, 1, 1).expand(3, 20, 20)
    for item in range(20):
        crop = random_crop(plain, 14, dice(1, 0, item))
        assert crop.shape == (3, 14, 14)
        assert crop.mean(dim=(1, 2)).tolist() == pytest.approx(RED, abs=0.01)


def test_crops_are_parts_of_the_photo_and_about_half_are_mirrored() -> None:
    ramp = torch.arange(0, 240, 10, dtype=torch.uint8).expand(3, 24, 24)
    crops = [random_crop(ramp, 8, dice(1, 0, item)) for item in range(200)]
    mirrored = sum(bool(crop[0, 0, 0] > crop[0, 0, -1]) for crop in crops)
    assert 75 < mirrored < 125
    widths = [float(crop[0, 0].max() - crop[0, 0].min()) for crop in crops]
    assert min(widths) < 130 < 180 < max(widths)


def test_jitter_scales_and_stays_in_range() -> None:
    grey = torch.full((2, 3, 4, 4), 0.4)
    found = jitter(grey, torch.tensor([[0.5, 1.3, 0.7], [3.0, 1.0, 1.0]]))
    assert found[0].mean() == pytest.approx(0.2)  # grey has neither contrast nor saturation
    assert found[1].mean() == 1.0


def test_a_view_depends_on_seed_epoch_and_photo_alone() -> None:
    how = Augmentation(3, 14, operations=2)
    together = views(noise(3), (10, 11, 12), 4, how)
    alone = views(noise(3)[1:2], (11,), 4, how)
    assert together.shape == (3, 3, 14, 14)
    assert 0 <= together.min() < together.max() <= 1
    torch.testing.assert_close(together[1:2], alone)
    for other in (
        views(noise(3)[1:2], (11,), 5, how),
        views(noise(3)[1:2], (12,), 4, how),
        views(noise(3)[1:2], (11,), 4, Augmentation(4, 14, operations=2)),
    ):
        assert not torch.equal(other, alone)


def test_every_photo_has_one_place_in_each_epochs_order() -> None:
    first, second = order(1, 0, 50), order(1, 1, 50)
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(50))
    assert not torch.equal(first, second)
    assert torch.equal(first, order(1, 0, 50))


@pytest.mark.parametrize("which", range(len(OPERATIONS)))
def test_each_operation_gives_views_of_the_same_shape(which: int) -> None:
    pixels = noise(3).float() / 255
    strong = OPERATIONS[which](pixels, torch.tensor([0.9, -0.9, 0.3]))
    assert strong.shape == pixels.shape
    assert torch.isfinite(strong).all()
    assert torch.equal(strong, pixels) == (which == 0)


def test_no_strength_changes_no_geometry_and_no_colour() -> None:
    pixels = noise(2).float() / 255
    for operation in (OPERATIONS[3], OPERATIONS[4], OPERATIONS[5], *OPERATIONS[9:]):
        torch.testing.assert_close(operation(pixels, torch.zeros(2)), pixels, rtol=0, atol=1e-5)


def test_a_shift_moves_the_picture_and_shows_grey_beside_it() -> None:
    pixels = torch.zeros(1, 3, 20, 20)
    shifted = OPERATIONS[12](pixels, torch.tensor([1.0]))  # 0.45 of 20 pixels
    assert shifted[0, :, :, :8].mean() == pytest.approx(0.5)
    assert shifted[0, :, :, 10:].max() == 0


@pytest.mark.parametrize("kind", ["mixup", "cutmix"])
def test_neighbours_are_mixed_in_pairs_by_the_told_share(kind: str) -> None:
    how = Augmentation(3, 8, **{kind: 1.0})  # type: ignore[arg-type]
    plain = torch.tensor([0.0, 1.0, 0.0, 1.0]).view(4, 1, 1, 1).expand(4, 3, 8, 8)
    mixed, mixture = mix(plain, 6, 2, how)
    assert mixture is not None
    assert mixture.partner.tolist() == [1, 0, 3, 2]
    own = torch.tensor([1.0, 0.0, 1.0, 0.0])
    darkness = 1 - mixed.mean(dim=(1, 2, 3))
    torch.testing.assert_close(darkness, mixture.share * own + (1 - mixture.share) * (1 - own))
    assert mixture.share[0] == mixture.share[1] != mixture.share[2]


def test_a_pair_is_mixed_alike_whoever_has_it() -> None:
    how = Augmentation(3, 8, mixup=0.4, cutmix=1.0)
    pixels = noise(8, 8).float() / 255
    whole, _ = mix(pixels, 0, 1, how)
    half, _ = mix(pixels[4:], 4, 1, how)
    assert torch.equal(whole[4:], half)
    assert not torch.equal(whole, mix(pixels, 0, 2, how)[0])
