import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from training.bottleneck.__main__ import app
from training.bottleneck.lesson import PHOTOS, Job, Photos, lesson
from training.bottleneck.records import RunFacts, read_run
from training.errors import TrainingError

TINY = {"rounds": 1, "steps": 8, "batch": 2, "side": 32, "photo": 64, "layers": 1}


def test_the_lesson_times_every_number_of_workers(tmp_path: Path) -> None:
    results, plot = tmp_path / "lesson.json", tmp_path / "lesson.png"
    options = [text for name, value in TINY.items() for text in (f"--{name}", str(value))]
    files = ["--json", str(results), "--plot", str(plot), "--threads", "1"]
    result = CliRunner().invoke(app, ["lesson", "--workers", "0,2", *files, *options])
    assert result.exit_code == 0, result.output
    found = json.loads(results.read_text())
    assert found["machine"]["cores"] == found["cores"]
    assert {name: found["job"][name] for name in TINY} == TINY
    assert found["threads"] == 1
    assert [row["workers"] for row in found["rows"]] == [0, 2]
    assert min(row["ratio"] for row in found["rows"]) == 1
    for row in found["rows"]:
        assert row["steps"] == 8
        assert sum(row["phases"].values()) == pytest.approx(row["step_s"], rel=1e-3)
        assert row["phases"]["backward"] > 0
        assert row["phases"]["data"] > 0
    with Image.open(plot) as image:
        assert image.format == "PNG"
    assert "/" not in json.dumps(found["job"])


def test_each_turn_is_announced_and_its_run_kept(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    said: list[str] = []
    lesson(Job(workers=(0,), **{**TINY, "rounds": 2}), said.append, runs=tmp_path)
    assert said == ["round 1 of 2, 0 workers", "round 2 of 2, 0 workers"]
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["0-1", "0-2"]
    found = read_run(tmp_path / "0-2")
    assert found.facts == RunFacts.here(torch.device("cpu"), workers=0)
    assert [step.number for step in found.steps] == list(range(1, 12))  # three to warm up
    with pytest.raises(TrainingError, match="is not empty"):
        lesson(Job(), said.append, runs=tmp_path)


def test_workers_never_run_out_of_photos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else those who fetch far ahead would be done loading before what is timed begins."""
    counts: list[int] = []

    class Counted(Photos):
        def __init__(self, files: Sequence[Path], count: int, side: int) -> None:
            counts.append(count)
            super().__init__(files, count, side)

    monkeypatch.setattr("training.bottleneck.lesson.Photos", Counted)
    found = lesson(Job(workers=(0, 1), **TINY), lambda _: None)
    assert counts == [2 * (3 + 8 + 2)] * 2
    assert [row["steps"] for row in found["rows"]] == [8, 8]


def test_photos_are_views_that_only_their_index_decides() -> None:
    photos = Photos(sorted(PHOTOS.glob("*.jpg")), count=20, side=32)
    assert len(photos) == 20
    first, again, other = photos[3], photos[3], photos[10]
    assert (first.shape, first.dtype) == ((3, 32, 32), torch.float32)
    assert -1 <= float(first.min()) < float(first.max()) <= 1
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workers": ()}, "each number of workers once"),
        ({"workers": (0, 2, 2)}, "each number of workers once"),
        ({"workers": (-1,)}, "0 or more"),
        ({"rounds": 0}, "must be 1 or more"),
        ({"steps": 0}, "must be 1 or more"),
        ({"side": 40}, "multiple of the patch, 16"),
        ({"side": 0}, "multiple of the patch, 16"),
        ({"photo": 0}, "1 or more"),
    ],
)
def test_a_job_that_cannot_be_run_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        lesson(Job(**changes), lambda _: None)  # type: ignore[arg-type]


def test_a_folder_without_photos_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"holds no \.jpg files"):
        lesson(Job(), lambda _: None, tmp_path)


def test_what_is_no_number_is_refused() -> None:
    result = CliRunner().invoke(app, ["lesson", "--workers", "0,many"])
    assert isinstance(result.exception, TrainingError)
    assert "'0,many' is no list of numbers" in str(result.exception)
