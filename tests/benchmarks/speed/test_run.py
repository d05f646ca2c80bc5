"""The command as a whole, with tiny networks: real servers, real answers, and no judgement of speed."""

import json
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.__main__ import main
from benchmarks.speed.agreement import Answer
from benchmarks.speed.measure import free_ports
from benchmarks.speed.results import load
from benchmarks.speed.roster import EVERYBODY
from benchmarks.speed.torchserve import RawBody


@pytest.mark.server
def test_marsmith_is_measured_beside_a_baseline_and_its_own_run(tmp_path: Path) -> None:
    """Started, asked by one and by more, held to the checkpoint's answers, scaled, stopped, and compared."""
    before = psutil.Process().children(recursive=True)  # other tests' servers
    file = tmp_path / "results.json"
    common = ["--tiny", "--only", "sentiment", "--work", str(tmp_path / "work")]
    assert (
        main(
            [
                *common,
                "--subjects",
                "marsmith,marsmith:int8,B5,B3",
                "--json",
                str(file),
                "--markdown",
                str(tmp_path / "r.md"),
            ]
        )
        == 0
    )
    found = load(file)["tasks"]["sentiment"]
    facts, measured = found["subjects"]["marsmith"], found["sets"]["tweets"]["subjects"]
    assert measured["marsmith"]["agreement"]["share"] == 1.0
    assert measured["marsmith"]["agreement"]["worst_score"] < 1e-3
    assert set(measured["marsmith"]["closed"]) == {"1", "4"}
    assert all(closed["per_second"]["median"] > 0 for closed in measured["marsmith"]["closed"].values())
    assert measured["marsmith"]["open"][0]["latency_ms"]["count"] > 0
    assert measured["B5"]["in_process"]["per_second"]["median"] > 0
    assert measured["marsmith:int8"]["agreement"]["share"] >= 0.99
    assert found["subjects"]["marsmith:int8"]["accuracy"]["precision"] == "int8"
    assert "accuracy" not in facts
    assert str(tmp_path) not in file.read_text()
    assert [row["subject"] for row in load(file)["targets"] if "matrix products" in row["name"]] == ["marsmith"]
    assert facts["worker_s"]["median"] > 0
    assert facts["start_s"]["median"] > 0
    assert facts["memory"]["one_worker"]["pss"] > facts["memory"]["further_worker"]["pss"] > 0
    assert facts["pack_s"] > 0
    assert "litserve" in found["skipped"]["B3"]
    assert "marsmith" in (tmp_path / "r.md").read_text()
    assert set(psutil.Process().children(recursive=True)) <= set(before)


@pytest.mark.parametrize("name", ["B9", "B1:int8"])
def test_a_subject_that_nobody_is_is_refused_before_any_work(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--subjects", name, "--work", str(tmp_path / "work")]) == 1
    assert f"There is no subject {name}" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "work").exists()


def test_results_to_compare_with_are_read_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.json").write_text("{}")
    assert main(["--compare", str(tmp_path / "old.json"), "--work", str(tmp_path / "work")]) == 1
    assert "no results" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (json.dumps({"a": 0.2, "b": 0.8}), Answer("b", {"a": 0.2, "b": 0.8})),
        ("positive", Answer("positive", {})),
        ('"positive"', Answer("positive", {})),
    ],
)
def test_stock_answers_are_read_as_labels_or_scores(raw: str, expected: Answer) -> None:
    unmade: Any = object()
    assert RawBody.answer(unmade, raw) == expected


def test_everybody_has_one_name() -> None:
    assert len(set(EVERYBODY)) == len(EVERYBODY) == 9


def test_servers_get_ports_that_nobody_listens_on() -> None:
    first = next(free_ports())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 2))
        taken.listen()
        assert next(free_ports()) > first
