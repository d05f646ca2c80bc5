import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle
from PIL import Image
from typer.testing import CliRunner

from tests.training.bottleneck.made_up import STEP, facts, line, write_facts, write_steps
from training.bottleneck.__main__ import app
from training.bottleneck.plot import BARS, plot_steps, plot_workers
from training.bottleneck.records import KERNELS, SAMPLES, read_run, write_json
from training.bottleneck.report import ROWS, spread, summarise
from training.errors import TrainingError

SAMPLE = {"at": 1.0, "process": 1.5, "rss_bytes": 2**30, "workers": 2, "cores": [1.0, 0.5]}


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """13 steps: 3 of warm-up and ten alike."""
    slow = [line(number, data=50) for number in range(1, 4)]
    return write_steps(tmp_path / "run", [*slow, *(line(number) for number in range(4, 14))])


def bars(figure: Any) -> list[Rectangle]:
    (axes,) = figure.axes
    return [patch for container in axes.containers if hasattr(container, "patches") for patch in container.patches]


def test_phases_have_median_spread_and_share_after_the_warm_up(run_folder: Path) -> None:
    found = summarise(read_run(run_folder))
    assert found["steps"] == 10
    assert found["step"]["median_s"] == pytest.approx(1)
    assert found["samples_per_s"] == pytest.approx(8)
    expected = STEP | {"other": 0.1}
    assert list(found["phases"]) == list(expected) == list(ROWS)
    for name, seconds in expected.items():
        assert found["phases"][name]["median_s"] == pytest.approx(seconds)
        assert found["phases"][name]["share"] == pytest.approx(seconds)
        assert found["phases"][name]["cv"] == pytest.approx(0, abs=1e-6)


def test_spread_is_of_the_textbook() -> None:
    assert spread([1, 2, 3, 4, 5]) == {
        "median_s": 3,
        "iqr_s": 2,
        "p95_s": pytest.approx(4.8),
        "cv": pytest.approx(2**0.5 / 3),
    }
    assert spread([0, 0])["cv"] == 0


def test_ranks_add_their_samples(tmp_path: Path) -> None:
    for rank, backward in enumerate((0.45, 0.95)):
        write_steps(tmp_path, [line(number, backward=backward) for number in range(1, 10)], rank)
    found = summarise(read_run(tmp_path))
    assert found["ranks"] == {"0": pytest.approx(1), "1": pytest.approx(1.5)}
    assert found["samples_per_s"] == pytest.approx(2 * 8 / 1.25)


def test_a_torn_last_line_is_passed_over(run_folder: Path) -> None:
    with (run_folder / "steps-rank0.jsonl").open("a") as file:
        file.write('{"step": 14, "samp')
    assert summarise(read_run(run_folder))["steps"] == 10


def test_a_step_done_again_after_a_resume_counts_once(tmp_path: Path) -> None:
    lines = [line(number) for number in (1, 2, 3, 4)] + [line(number, data=1) for number in (3, 4, 5)]
    found = [(step.number, step.phases["data"]) for step in read_run(write_steps(tmp_path, lines)).steps]
    assert found == [(1, 0.05), (2, 0.05), (3, 1), (4, 1), (5, 1)]


@pytest.mark.parametrize("broken", ["{", "[1]", '{"step": 1}', json.dumps({"step": "x"})])
def test_a_damaged_line_is_named(tmp_path: Path, broken: str) -> None:
    folder = write_steps(tmp_path, [line(1), broken + "\n", line(2)])
    with pytest.raises(TrainingError, match=r"Line 2 of steps-rank0\.jsonl"):
        read_run(folder)


def test_a_folder_without_steps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="holds no steps-rank"):
        read_run(tmp_path)


def test_too_few_steps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"has 7 steps.*record 8 or more"):
        summarise(read_run(write_steps(tmp_path, map(line, range(1, 8)))))


def test_what_the_machine_did_is_told_and_decides(run_folder: Path) -> None:
    write_facts(run_folder, asdict(facts(workers=4, cores=2)))
    samples = [SAMPLE, SAMPLE | {"rss_bytes": 2**31, "cores": [1.0, 1.0]}]
    (run_folder / SAMPLES).write_text("".join(json.dumps(sample) + "\n" for sample in samples) + '{"at"')
    found = summarise(read_run(run_folder))
    assert found["machine"]["cores"] == [1.0, 0.75]
    assert found["machine"]["cores_use"] == pytest.approx(0.875)
    assert found["machine"]["other_cores"] == pytest.approx(0.25)
    assert found["machine"]["rss_bytes"] == 2**31
    assert found["machine"]["gpu_use"] is None
    assert [advice["rule"] for advice in found["advice"]] == ["balanced"]
    (run_folder / SAMPLES).write_text(json.dumps(SAMPLE | {"cores": [1.0, 0.9]}) + "\n")
    found = summarise(read_run(run_folder))
    assert [advice["rule"] for advice in found["advice"]] == ["too many workers for the cores"]


def test_facts_that_lack_something_are_refused(run_folder: Path) -> None:
    write_facts(run_folder, {"device": "cpu"})
    with pytest.raises(TrainingError, match=r"run\.json of run lacks bf16, bf16_capable, cores"):
        read_run(run_folder)


def test_the_command_prints_json_and_draws(run_folder: Path, tmp_path: Path) -> None:
    plot = tmp_path / "plots" / "steps.png"
    result = CliRunner().invoke(app, ["report", str(run_folder), "--json", "--plot", str(plot)])
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert found["phases"]["backward"]["share"] == pytest.approx(0.45)
    assert found["advice"][0]["rule"] == "balanced"
    with Image.open(plot) as image:
        assert image.format == "PNG"
    assert [file.name for file in plot.parent.iterdir()] == ["steps.png"]


def test_the_command_prints_tables(run_folder: Path) -> None:
    write_facts(run_folder, asdict(facts(workers=3)))
    kernel = {"name": "aten::mm", "calls": 5, "self_s": 0.5, "share": 0.8}
    write_json({"steps": 3, "device": "cpu", "gemm_share": 0.8, "kernels": [kernel]}, run_folder / KERNELS)
    (run_folder / SAMPLES).write_text(json.dumps(SAMPLE) + "\n")
    shown = CliRunner().invoke(app, ["report", str(run_folder)]).output
    for text in ("loader workers 3", "450.0", "45%", "aten::mm", "80.0%", "Cores 75% busy", "GEMM-bound: try bf16:"):
        assert text in shown


def test_the_bars_of_a_step_stand_on_each_other(run_folder: Path) -> None:
    steps = read_run(run_folder).steps
    drawn = bars(plot_steps(steps))
    assert len(drawn) == 13 * len(ROWS)
    for index, step in enumerate(steps):
        column = drawn[index :: len(steps)]
        assert [bar.get_height() for bar in column] == pytest.approx([1000 * step.phases[name] for name in ROWS])
        tops = np.cumsum([bar.get_height() for bar in column])
        assert [bar.get_y() for bar in column] == pytest.approx([0, *tops[:-1]])
        assert tops[-1] == pytest.approx(1000 * step.seconds)
        assert {bar.get_x() + bar.get_width() / 2 for bar in column} == {step.number}


def test_many_steps_are_averaged_in_groups(tmp_path: Path) -> None:
    lines = [line(number, data=number % 2) for number in range(1, 2 * BARS + 1)]
    drawn = bars(plot_steps(read_run(write_steps(tmp_path, lines)).steps))
    assert len(drawn) == BARS * len(ROWS)
    assert {round(bar.get_height()) for bar in drawn[:BARS]} == {500}


def test_the_lessons_bars_are_as_high_as_the_steps_are_long() -> None:
    phases = dict.fromkeys(ROWS, 0.0)
    rows = [
        {"workers": 0, "step_s": 2.0, "p95_s": 2.5, "phases": phases | {"data": 0.5, "forward": 1.5}},
        {"workers": 4, "step_s": 3.0, "p95_s": 6.0, "phases": phases | {"backward": 3.0}},
    ]
    figure = plot_workers(rows, cores=2)
    drawn = bars(figure)
    assert [sum(bar.get_height() for bar in drawn[column::2]) for column in (0, 1)] == pytest.approx([1, 1.5])
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["0", "4"]
