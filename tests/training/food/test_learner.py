from collections.abc import Callable

import pytest
import torch

from training.food.learner import Learner, matched
from training.food.losses import feature_loss
from training.food.networks import Classifier
from training.food.photos import Photos
from training.food.preprocessing import whole
from training.food.teacher import Teacher

Make = Callable[..., Classifier]


def test_projections_start_as_the_least_squares(make_vit: Make, photos: Photos) -> None:
    teacher, pupil = make_vit(seed=1, hidden_size=24), make_vit()
    asked, learner = Teacher(teacher, torch.device("cpu")), Learner(pupil.model, teacher.model)
    views = whole(photos.pixels(torch.arange(24)))

    @torch.no_grad()
    def distances() -> list[float]:
        hidden = learner(pupil.see(views)).hidden
        wanted = asked.answer(views, features=2).features
        return [float(feature_loss(mine, theirs)) for mine, theirs in zip(hidden, wanted, strict=True)]

    before = distances()
    learner.fit_projections(pupil.see(views), asked.answer(views, features=2).features)
    fitted = distances()
    assert all(new < 0.7 * old for new, old in zip(fitted, before, strict=True))
    # A student that has its teacher's features has nothing to learn.
    same = Learner(teacher.model, teacher.model)
    same.fit_projections(teacher.see(views), asked.answer(views, features=2).features)
    for mine, theirs in zip(same(teacher.see(views)).hidden, asked.answer(views, features=2).features, strict=True):
        assert feature_loss(mine, theirs).item() == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(("layers", "count"), [(2, 2), (3, 1)])
def test_every_layer_learns_where_both_have_as_many(make_vit: Make, layers: int, count: int) -> None:
    assert matched(make_vit().model, make_vit(layers=layers).model) == count
