import pytest
import torch

from training.errors import TrainingError
from training.food.augment import Augmentation
from training.food.batches import Batches
from training.food.distributed import Processes
from training.food.photos import Photos


def batches(
    photos: Photos, size: int = 8, *, accumulate: int = 1, rank: int = 0, world: int = 1, **how: float
) -> Batches:
    return Batches(photos, Augmentation(1, 28, **how), size, accumulate, Processes(rank, world))  # type: ignore[arg-type]


def test_every_photo_is_seen_once_an_epoch_in_another_order(photos: Photos) -> None:
    seen = [part.items for parts in batches(photos).steps(0, 6, 0) for part in parts]
    first, second = torch.cat(seen[:3]).tolist(), torch.cat(seen[3:]).tolist()
    assert sorted(first) == sorted(second) == list(range(24))
    assert first != second


def test_labels_go_with_their_photos(photos: Photos) -> None:
    (batch,) = batches(photos, jitter=0.0).parts(1)
    brightest = batch.views.mean(dim=(1, 2, 3)).sort().indices
    assert batch.labels[brightest].tolist() == sorted(batch.labels.tolist())
    assert torch.equal(batch.labels, photos.labels[batch.items])


@pytest.mark.parametrize(("world", "accumulate"), [(2, 1), (1, 2), (2, 2)])
def test_shares_and_parts_are_the_same_step(photos: Photos, world: int, accumulate: int) -> None:
    (whole,) = batches(photos, mixup=0.5).parts(4)
    split = [
        list(batches(photos, accumulate=accumulate, rank=r, world=world, mixup=0.5).parts(4)) for r in range(world)
    ]
    found = [split[rank][part] for part in range(accumulate) for rank in range(world)]
    assert torch.equal(torch.cat([part.items for part in found]), whole.items)
    torch.testing.assert_close(torch.cat([part.views for part in found]), whole.views)


def test_threads_make_the_same_steps_ahead(photos: Photos) -> None:
    plain, ahead = (list(batches(photos).steps(2, 7, threads)) for threads in (0, 3))
    assert len(plain) == len(ahead) == 5
    for one, other in zip(plain, ahead, strict=True):
        assert torch.equal(one[0].views, other[0].views)


def test_kept_views_take_turns(photos: Photos) -> None:
    kept = Batches(photos, Augmentation(1, 28), 8, 1, Processes(), kept=2)
    items = torch.arange(4)
    first, second, third = (kept.batch(items, epoch, 0).views for epoch in range(3))
    assert torch.equal(first, third)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"size": 25}, "A batch of 25 is more than the 24 photos: lower --batch"),
        ({"size": 9, "world": 2}, "choose a multiple of 2"),
        ({"size": 8, "world": 3, "accumulate": 2}, "3 processes x 2 parts: choose a multiple of 6"),
        ({"size": 6, "world": 2, "mixup": 1.0}, r"pairs \(of mixup\): choose a multiple of 4"),
    ],
)
def test_a_step_that_cannot_be_shared_out_is_a_mistake(photos: Photos, wrong: dict[str, int], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        batches(photos, **wrong).check()
