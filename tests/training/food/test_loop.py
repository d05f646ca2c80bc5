import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from training.bottleneck.clock import Clock, NoClock
from training.bottleneck.records import read_run
from training.errors import TrainingError
from training.food import checkpoint
from training.food.augment import Augmentation
from training.food.batches import Batch, Batches
from training.food.distributed import Processes
from training.food.evaluate import score
from training.food.learner import Answers, Learner
from training.food.loop import Objective, Plan, Trainer
from training.food.losses import hard_loss
from training.food.networks import Classifier
from training.food.photos import Photos
from training.food.run_folder import RunFolder
from training.food.student import from_shape
from training.food.teacher import Distillation, Teacher, Wanted
from training.food.timing import Timing

Make = Callable[..., Classifier]
Weights = dict[str, Tensor]


def by_labels(answers: Answers, batch: Batch) -> Tensor:
    return hard_loss(answers.labelled, batch.labels, batch.mixture)


def trainer(
    pupil: Classifier,
    photos: Photos,
    folder: Path,
    objective: Objective = by_labels,
    *,
    learner: Learner | None = None,
    accumulate: int = 1,
    keep: Callable[[PreTrainedModel], None] = lambda _: None,
    how: dict[str, float] | None = None,
    **plan: Any,
) -> Trainer:
    folder.mkdir(exist_ok=True)
    augmentation = Augmentation(1, 28, **how or {})  # type: ignore[arg-type]
    batches = Batches(photos, augmentation, 8, accumulate, Processes())
    settings = Plan(**{"epochs": 2, "lr": 5e-3, "log_steps": 1} | plan)
    return Trainer(
        learner or Learner(pupil.model),
        pupil.see,
        batches,
        objective,
        settings,
        RunFolder(folder),
        lambda model: {"top1": score(model, pupil.see, photos).top1},
        keep,
    )


def losses(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def test_training_learns_dark_from_bright_and_stores_every_epoch(
    make_vit: Make, photos: Photos, tmp_path: Path
) -> None:
    pupil, stored = make_vit(), list[float]()
    before = pupil.model.vit.layers[0].mlp.fc1.weight.clone()
    run = trainer(
        pupil,
        photos,
        tmp_path / "run",
        epochs=12,
        frozen=1,
        keep=lambda model: stored.append(model.classifier.bias[0].item()),
        how={"jitter": 0.0},
    )
    figures = run.run()
    assert figures["top1"] > 0.9
    assert len(set(stored)) == 12
    assert torch.equal(pupil.model.vit.layers[0].mlp.fc1.weight, before)
    assert [path.name for path in (tmp_path / "run/resume").iterdir()] == ["step-00000036"]
    assert len(losses(tmp_path / "run")) == 36


@pytest.mark.parametrize("changes", [{"accumulate": 4}, {"threads": 2}])
def test_parts_and_threads_change_nothing(
    make_vit: Make, photos: Photos, tmp_path: Path, changes: dict[str, Any]
) -> None:
    plain, other = make_vit(), make_vit()
    trainer(plain, photos, tmp_path / "plain").run()
    trainer(other, photos, tmp_path / "other", **changes).run()
    assert losses(tmp_path / "other") == pytest.approx(losses(tmp_path / "plain"), rel=1e-4)
    for one, two in zip(plain.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)


class Killed(Exception):
    pass


class Dying(NoClock):
    """Ends a run in its step number `last`, counted from 1."""

    def __init__(self, last: int) -> None:
        self.left = last

    def step(self, samples: int) -> None:
        self.left -= 1
        if not self.left:
            raise Killed


class Killer(Timing):
    """Gives the run a clock that ends it in step 6."""

    @contextmanager
    def clock(self, processes: Processes, start: int, **_: Any) -> Iterator[Clock]:
        yield Dying(6 - start)


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_a_resumed_run_ends_like_one_that_was_never_stopped(
    make_vit: Make, photos: Photos, tmp_path: Path, ema: float
) -> None:
    results = dict[str, list[Weights]]({"whole": [], "parts": []})

    def keep(name: str) -> Callable[[PreTrainedModel], None]:
        return lambda model: results[name].append({k: v.clone() for k, v in model.state_dict().items()})

    options: dict[str, Any] = {"epochs": 3, "checkpoint_steps": 2, "ema": ema, "how": {"mixup": 0.3, "operations": 1}}
    trainer(make_vit(), photos, tmp_path / "whole", keep=keep("whole"), **options).run()
    killed = trainer(make_vit(), photos, tmp_path / "parts", keep=keep("parts"), **options)
    killed.timing = Killer()
    with pytest.raises(Killed):
        killed.run()
    assert [path.name for path in checkpoint.found(tmp_path / "parts/resume")] == ["step-00000004"]
    trainer(make_vit(seed=99), photos, tmp_path / "parts", keep=keep("parts"), **options).run()
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    for name, value in results["whole"][-1].items():
        assert torch.equal(results["parts"][-1][name], value), name


def test_a_timed_run_can_be_reported_on(make_vit: Make, photos: Photos, tmp_path: Path) -> None:
    run = trainer(make_vit(), photos, tmp_path / "run", epochs=2)
    run.timing = Timing(tmp_path / "times")
    run.run()
    found = read_run(tmp_path / "times")
    assert [step.number for step in found.steps] == list(range(1, 1 + 2 * run.batches.per_epoch))
    assert all(step.samples == 8 and step.phases["forward"] > 0 and step.phases["backward"] > 0 for step in found.steps)
    assert found.facts is not None
    assert (found.facts.ranks, found.facts.bf16) == (1, False)


def test_another_plan_cannot_resume_a_run(make_vit: Make, photos: Photos, tmp_path: Path) -> None:
    trainer(make_vit(), photos, tmp_path / "run", epochs=1).run()
    with pytest.raises(TrainingError, match=r"The run to resume had epochs = 1, lr = 0.005: pass the same"):
        trainer(make_vit(), photos, tmp_path / "run", epochs=2, lr=1.0).run()


@pytest.mark.parametrize("fault", ["loss", "gradient"])
def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_checkpoint(
    make_vit: Make, photos: Photos, tmp_path: Path, fault: str
) -> None:
    pupil = make_vit()
    stored = list[Weights]()

    def objective(answers: Answers, batch: Batch) -> Tensor:
        loss = by_labels(answers, batch)
        if batch.epoch == 0:
            return loss
        # The root of nothing is nothing, but its slope is infinite.
        return loss * float("nan") if fault == "loss" else loss + (0 * answers.labelled).sum().sqrt()

    run = trainer(pupil, photos, tmp_path / "run", objective, keep=lambda model: stored.append(model.state_dict()))
    with pytest.raises(TrainingError, match=r"no longer finite in step 4; the model of step-00000003 is in .*run"):
        run.run()
    assert len(stored) == 1
    assert all(torch.isfinite(value).all() for value in pupil.model.state_dict().values())
    last = checkpoint.load_last(tmp_path / "run/resume")
    assert last is not None
    assert last.step == 3


def test_the_average_is_what_is_scored_and_stored(make_vit: Make, photos: Photos, tmp_path: Path) -> None:
    pupil, stored = make_vit(), list[Weights]()
    trainer(pupil, photos, tmp_path, ema=0.99, keep=lambda model: stored.append(model.state_dict())).run()
    assert not torch.equal(stored[-1]["classifier.weight"], pupil.model.classifier.weight)


def test_dropout_is_on_and_its_draws_are_a_runs_own(make_vit: Make, photos: Photos, tmp_path: Path) -> None:
    for name, dropout in (("none", 0.0), ("some", 0.5), ("again", 0.5)):
        trainer(make_vit(hidden_dropout_prob=dropout), photos, tmp_path / name).run()
    assert losses(tmp_path / "some") == losses(tmp_path / "again")
    assert losses(tmp_path / "some")[0] != pytest.approx(losses(tmp_path / "none")[0], rel=1e-3)


def test_bf16_runs_and_keeps_fp32_weights(make_vit: Make, photos: Photos, tmp_path: Path) -> None:
    pupil = make_vit()
    trainer(pupil, photos, tmp_path / "bf16", bf16=True).run()
    trainer(make_vit(), photos, tmp_path / "fp32").run()
    assert losses(tmp_path / "bf16") == pytest.approx(losses(tmp_path / "fp32"), rel=0.05)
    assert losses(tmp_path / "bf16") != losses(tmp_path / "fp32")
    assert pupil.model.dtype == torch.float32


def distil(teacher: Classifier, **weights: float) -> Distillation:
    return Distillation(Teacher(teacher, torch.device("cpu")).ask, 2.0, **{"hard": 0.3} | weights)


def test_the_teacher_sees_the_very_views_of_its_student_mixed_as_they_are(
    make_vit: Make, photos: Photos, tmp_path: Path
) -> None:
    teacher, pupil = make_vit(seed=1), make_vit()
    seen: dict[str, list[Tensor]] = {"teacher": [], "student": []}
    teacher.model.register_forward_pre_hook(lambda _, inputs: seen["teacher"].append(inputs[0]))
    pupil.model.register_forward_pre_hook(lambda _, inputs: seen["student"].append(inputs[0]))
    run = trainer(pupil, photos, tmp_path, distil(teacher), epochs=1, how={"mixup": 1.0, "operations": 2})
    for parts in run.batches.steps(0, 3, 0):
        run._step(run.learner, torch.optim.SGD(pupil.model.parameters(), 0.0), parts, 0, NoClock())
    assert len(seen["teacher"]) == 3
    assert all(torch.equal(one, two) for one, two in zip(seen["teacher"], seen["student"], strict=True))


def test_a_student_comes_closer_to_its_teacher_without_labels(make_vit: Make, photos: Photos, tmp_path: Path) -> None:
    teacher, pupil = make_vit(seed=1), make_vit()
    before = {name: value.clone() for name, value in teacher.model.state_dict().items()}
    run = trainer(pupil, photos, tmp_path / "run", distil(teacher, hard=0.0), epochs=10)
    run.run()
    found = losses(tmp_path / "run")
    assert sum(found[-3:]) < 0.3 * sum(found[:3])
    assert all(torch.equal(value, before[name]) for name, value in teacher.model.state_dict().items())


def test_a_feature_loss_brings_the_features_closer(make_vit: Make, photos: Photos, tmp_path: Path) -> None:
    teacher, pupil = make_vit(seed=1, hidden_size=24), make_vit()
    objective = distil(teacher, hard=0.0, features=1.0)
    learner = Learner(pupil.model, teacher.model)
    assert len(learner.projections) == 2
    trainer(pupil, photos, tmp_path / "run", objective, epochs=8, learner=learner).run()
    with_features = losses(tmp_path / "run")
    assert with_features[0] > 1
    assert with_features[-1] < 0.8 * with_features[0]


def test_labels_teach_deits_class_token_and_the_teacher_its_other_or_both_without_labels(
    make_vit: Make, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = make_vit(seed=1)
    monkeypatch.setitem(from_shape.__globals__["SHAPES"], "deit-tiny", (64, 2))
    pupil = from_shape("deit-tiny", teacher)
    batch = next(iter(Batches(photos, Augmentation(1, 28), 8, 1, Processes()).parts(0)))

    def learning(hard: float, factor: float) -> list[bool]:
        """Whether each head's gradient grows with the loss of the teacher's answers, times `factor`."""
        found = list[Tensor]()
        ask = Teacher(teacher, torch.device("cpu")).ask
        for loudness in (1.0, factor):
            pupil.model.zero_grad()

            def louder(batch: Batch, *, features: int, times: float = loudness) -> Wanted:
                return Wanted(times * ask(batch, features=features).logits, [])

            answers = Learner(pupil.model)(pupil.see(batch.views))
            Distillation(louder, 2.0, hard)(answers, batch).backward()  # type: ignore[no-untyped-call]
            heads = [pupil.model.cls_classifier, pupil.model.distillation_classifier]
            found += [head.weight.grad.clone() for head in heads]
        return [not torch.equal(found[head], found[head + 2]) for head in (0, 1)]

    assert learning(0.5, 3.0) == [False, True]
    assert learning(0.0, 3.0) == [True, True]
