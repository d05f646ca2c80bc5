"""Results survive their file, and tables and plots say what is in them."""

import copy
from pathlib import Path

import pytest

from benchmarks.speed.report import conditions, markdown, sections, wrong
from benchmarks.speed.results import load, percentiles, placeless, save, summary
from tests.benchmarks.made_up import RESULTS


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    save(RESULTS, tmp_path / "new/results.json")
    assert load(tmp_path / "new/results.json") == RESULTS


def test_another_file_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="no results"):
        load(tmp_path / "other.json")


def test_percentiles_are_measured_values_by_nearest_rank() -> None:
    assert percentiles([float(one) for one in range(1, 201)]) == {
        "p50": 100.0,
        "p90": 180.0,
        "p95": 190.0,
        "p99": 198.0,
        "max": 200.0,
        "count": 200.0,
    }
    assert percentiles([7.0])["p99"] == 7.0
    assert percentiles([]) == {}


def test_a_summary_keeps_every_round() -> None:
    assert summary([3.0, 1.0, 2.0]) == {"median": 2.0, "min": 1.0, "max": 3.0, "rounds": [3.0, 1.0, 2.0]}


def test_the_table_compares_each_of_ours_with_each_and_with_the_limit() -> None:
    speed, footprint, _ = sections(RESULTS)
    assert speed.columns[2:4] == ("marsmith / this", "marsmith:int8 / this")
    rows = {row[0].removesuffix(": a careful handler"): row for row in speed.rows}
    assert {name: rows[name][2:4] for name in ("marsmith", "marsmith:int8", "B1", "B5")} == {
        "marsmith": ("1.00x", "1.67x"),
        "marsmith:int8": ("0.60x", "1.00x"),
        "B1": ("3.00x", "5.00x"),
        "B5": ("2.50x", "4.17x"),
    }
    # 100 G/s through 5 G an answer are 20 a second.
    assert [row[1:4] for row in speed.rows if row[0].startswith("limit: fp32")] == [("20.0", "1.50x", "2.50x")]
    assert rows["B1"][4:] == ("120.0 (108.0 to 132.0)", "120 / 240 / 360", "100.0%")
    assert [row[-1] for row in footprint.rows] == ["100", "100", "800"]


def test_the_targets_are_a_table_of_their_own() -> None:
    *_, targets = sections(RESULTS)
    rows = {row[0]: row[1:] for row in targets.rows}
    assert rows["tweets/s, 32 clients, by B1"] == ("marsmith:int8", "at least 2.7", "5", "yes", "+85%")


def test_directories_of_this_machine_are_not_in_the_results() -> None:
    assert placeless("--json out/a.json --python B2=/home/me/env/bin/python") == "--json out/a.json --python B2=python"
    assert placeless("B3 ended: see ~/logs/server.log. (1 / 2)") == "B3 ended: see server.log. (1 / 2)"


def test_markdown_has_a_row_of_as_many_cells_for_each_subject_and_names_the_conditions() -> None:
    text = markdown(RESULTS)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {7, 8}
    assert "- marsmith:int8, sentiment: 99.6% of 128 labels" in text
    assert "- Load average 0.1 at the start and 2.0 at the end" in text
    for line in (*conditions(RESULTS), "Skipped: B4 is not installed."):
        assert f"- {line}" in text.splitlines()


def test_wrong_answers_and_refused_requests_are_faults() -> None:
    assert wrong(RESULTS) == []
    results = copy.deepcopy(RESULTS)
    measured = results["tasks"]["sentiment"]["sets"]["tweets"]["subjects"]["marsmith"]
    measured["agreement"] |= {"share": 0.5, "ok": False}
    measured["closed"]["32"]["failed"] = 3
    disagreement, refused = wrong(results)
    assert "50.0% of 100 answers" in disagreement
    assert "3 requests" in refused
    assert "WRONG" in markdown(results)


def test_each_kind_of_input_has_a_plot_of_throughput_and_one_of_latency(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the extra `bench`")
    from PIL import Image

    from benchmarks.speed.plots import plots

    written = plots(RESULTS, tmp_path / "plots")
    assert [path.name for path in written] == ["sentiment-tweets.png", "sentiment-tweets-latency.png"]
    for path in written:
        with Image.open(path) as image:
            assert len(set(image.convert("RGB").resize((64, 36)).get_flattened_data())) > 5
