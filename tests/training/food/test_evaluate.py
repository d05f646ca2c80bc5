from dataclasses import replace

import pytest
import torch

from training.errors import TrainingError
from training.food.evaluate import Accuracy, aligned, forward_seconds, predict
from training.food.networks import Classifier
from training.food.photos import Photos
from training.food.preprocessing import Preprocessing
from training.food.sources import UNLABELLED


def test_accuracy_of_known_logits() -> None:
    logits = torch.tensor(
        [[9.0, 1, 2, 3, 4, 5], [9, 1, 2, 3, 4, 5], [9, 1, 2, 3, 4, 5], [0, 9, 0, 0, 0, 0], [0, 9, 1, 2, 3, 4]]
    )
    found = Accuracy.of(logits, torch.tensor([0, 0, 1, 1, 2]))
    assert found.top1 == pytest.approx(3 / 5)
    assert found.top5 == pytest.approx(4 / 5)
    assert found.macro_recall == pytest.approx((1 + 1 / 2 + 0) / 3)


def test_fewer_than_five_labels_can_be_scored() -> None:
    assert Accuracy.of(torch.tensor([[1.0, 2.0]]), torch.tensor([0])).top5 == 1


def test_outputs_come_in_the_order_of_the_photos() -> None:
    labels = torch.arange(130) % 2
    photos = Photos((200 * labels.view(-1, 1, 1, 1)).expand(130, 3, 8, 8).to(torch.uint8), labels)
    found = predict(lambda pixels: pixels.mean(dim=(1, 2, 3))[:, None], Preprocessing(8), photos)
    assert found.shape == (130, 1)
    assert ((found[:, 0] > 0).long() == labels).all()


def test_the_datas_ids_become_the_networks(photos: Photos) -> None:
    found = aligned(photos, ("sour cream", "Leek", "RED-BEET", "apple"), "the teacher")
    assert found.labels[:4].tolist() == [3, 2, 0, 3]


def test_a_class_that_the_network_has_not_is_named(photos: Photos) -> None:
    with pytest.raises(TrainingError, match=r"2 classes of the data are none of the 2 labels of the teacher \(Red B"):
        aligned(photos, ("Apple", "Leek"), "the teacher")


def test_an_unlabelled_photo_stays_so(photos: Photos) -> None:
    some = replace(photos, labels=torch.tensor([UNLABELLED, 1] * 12))
    found = aligned(some, ("Red Beet", "Apple", "Sour Cream"), "the teacher")
    assert found.labels[:2].tolist() == [UNLABELLED, 0]


def test_a_photo_takes_some_time(vit: Classifier) -> None:
    assert forward_seconds(vit) > 0
