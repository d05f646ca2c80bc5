import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from training.errors import TrainingError
from training.food.augment import Augmentation
from training.food.batches import Batches
from training.food.cache import fill
from training.food.distributed import Processes
from training.food.networks import Classifier
from training.food.photos import Photos
from training.food.teacher import Teacher, Wanted

CPU = torch.device("cpu")


def kept(photos: Photos, **how: float) -> Batches:
    return Batches(photos, Augmentation(1, 28, **how), 8, 1, Processes(), kept=2)  # type: ignore[arg-type]


def test_kept_answers_are_those_of_the_views_as_they_come(vit: Classifier, photos: Photos, tmp_path: Path) -> None:
    teacher, batches = Teacher(vit, CPU), kept(photos)
    remembered = fill(tmp_path, teacher, batches, bf16=False)
    assert remembered.values.shape == (2, 24, 3)
    for step in range(9):  # three epochs: the third shows the views of the first
        (batch,) = batches.parts(step)
        wanted, _ = teacher.ask(batch, features=0)
        found, _ = remembered.ask(batch, features=0)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert not np.array_equal(remembered.values[0], remembered.values[1])


def test_what_is_there_is_used_and_another_teacher_asked_anew(
    vit: Classifier, photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    answer = Teacher.answer

    def count(self: Teacher, views: torch.Tensor, *, features: int = 0) -> Wanted:
        asked.append(len(views))
        return answer(self, views, features=features)

    monkeypatch.setattr(Teacher, "answer", count)
    first = fill(tmp_path, Teacher(vit, CPU), kept(photos), bf16=False)
    assert sum(asked) == 2 * 24
    again = fill(tmp_path, Teacher(vit, CPU), kept(photos), bf16=False)
    assert sum(asked) == 2 * 24
    assert (first.values == again.values).all()
    vit.model.classifier.bias.data += 1
    other = fill(tmp_path, Teacher(vit, CPU), kept(photos), bf16=False)
    assert sum(asked) == 4 * 24
    assert other.values.mean() == pytest.approx(again.values.mean() + 1, abs=1e-4)


def test_mixed_views_cannot_be_kept(vit: Classifier, photos: Photos, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="Mixed views never come back"):
        fill(tmp_path, Teacher(vit, CPU), kept(photos, mixup=1.0), bf16=False)


def test_a_full_disk_is_told_before_the_teacher_is_asked(
    vit: Classifier, photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"No space left on device: .*teacher.npy"):
        fill(tmp_path, Teacher(vit, CPU), kept(photos), bf16=False)
    assert list(tmp_path.iterdir()) == []


def test_features_are_not_kept(vit: Classifier, photos: Photos, tmp_path: Path) -> None:
    batches = kept(photos)
    (batch,) = batches.parts(0)
    with pytest.raises(TrainingError, match="Only logits are kept"):
        fill(tmp_path, Teacher(vit, CPU), batches, bf16=False).ask(batch, features=1)
