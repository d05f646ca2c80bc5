"""A short run of hostile requests through TorchServe's real worker, and that such a run can fail."""

import json
from pathlib import Path

import pytest

from benchmarks.hostile.__main__ import main
from benchmarks.hostile.drive import DEATH, HANG, LEAK, Drive, watchdog
from benchmarks.hostile.generator import Generator
from benchmarks.hostile.judge import HARMED, STATUS
from tests.benchmarks.hostile_handlers import bad_archive

REQUESTS = 600
# Enough for a few batches.
FEW = 60


@pytest.mark.parametrize(
    ("task", "seed", "environ"),
    [("sentiment", 1, {}), ("food", 2, {"TS_DECODE_INPUT_REQUEST": "false"})],
    ids=["sentiment", "food, as SageMaker hands requests over"],
)
def test_a_worker_answers_hostile_requests_and_leaves_their_neighbours_alone(
    store: Path, task: str, seed: int, environ: dict[str, str]
) -> None:
    tally = Drive(store / f"{task}.mar", Generator(task, seed), environ).run(REQUESTS)
    assert [str(failure) for failure in tally.failures] == []
    assert tally.requests == sum(tally.statuses.values()) == REQUESTS
    assert tally.good > REQUESTS / 10
    assert set(tally.statuses) | {413} == {200, 400, 413, 415, 422}
    assert 0 < tally.pace.slow < REQUESTS / 10
    assert len(tally.pace.beside_slow_s) + len(tally.pace.beside_usual_s) == tally.good
    assert all(sample.rss > sample.pss > 0 for sample in tally.memory)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("dies", DEATH),
        ("hangs", HANG),
        ("harms", HARMED),
        ("logs", LEAK),
        ("status", STATUS),
        ("one answer less", STATUS),
    ],
)
def test_each_fault_of_a_handler_is_found(store: Path, tmp_path: Path, fault: str, kind: str) -> None:
    archive = bad_archive(store / "sentiment.mar", tmp_path / "bad.mar", fault)
    told: list[str] = []
    drive = Drive(
        archive,
        Generator("sentiment", 3),
        watchdog_s=20 if fault == "hangs" else 600,
        tell=lambda failure: told.append(failure.kind),
    )
    tally = drive.run(FEW)
    assert set(tally.faults) == {kind}
    assert tally.requests == FEW  # the run goes on, in a new worker where one is lost
    assert told == [failure.kind for failure in tally.failures]
    if kind in (DEATH, HANG):
        assert tally.faults[kind] == 1
        assert {sample.worker for sample in tally.memory} == {1, 2}


def test_the_command_fails_with_the_run_and_says_how_to_see_it_again(
    store: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad_archive(store / "sentiment.mar", tmp_path / "sentiment.mar", "status")
    file = tmp_path / "new/result.json"
    arguments = ["--model-store", str(tmp_path), "--model", "sentiment", "--seed", "3", "--requests", str(FEW)]
    assert main([*arguments, "--json", str(file)]) == 1
    shown = capfd.readouterr()
    assert "wrong statuses" in shown.out
    result = json.loads(file.read_text())["models"]["sentiment"]
    assert {"neighbours_s", "neighbours_beside_slow_s", "dearest", "largest"} < set(result["pace"])
    failure = result["failures"][0]
    assert f"sentiment: batch {failure['batch']}, request {failure['number']}" in shown.err
    assert main([*arguments, "--only-batch", str(failure["batch"])]) == 1
    assert f"request {failure['number']} " in capfd.readouterr().err


def test_the_command_succeeds_where_nothing_is_wrong(store: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "new/memory.png"
    assert main(["--model-store", str(store), "--requests", str(FEW), "--plot", str(file)]) == 0
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_plot_without_matplotlib_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert main(["--model-store", str(tmp_path), "--plot", str(tmp_path / "x.png")]) == 1
    assert "pip install 'marsmith[bench]'" in capfd.readouterr().err


def test_a_watchdog_that_is_not_needed_does_nothing() -> None:
    with watchdog(0, 600) as barked:
        pass
    assert not barked.is_set()
