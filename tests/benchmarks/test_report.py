"""Results survive their file, and tables and plots say what is in them."""

import copy
from pathlib import Path

import pytest

from benchmarks.report import conditions, markdown, sections, wrong
from benchmarks.results import load, percentiles, save, summary
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


def test_the_table_compares_marsmith_with_each_and_with_the_limit() -> None:
    speed, footprint = sections(RESULTS)
    rows = {row[0].partition(":")[0]: row for row in speed.rows}
    assert {name: rows[name][2] for name in ("marsmith", "B1", "B5")} == {
        "marsmith": "1.00x",
        "B1": "3.00x",
        "B5": "2.50x",
    }
    # 100 G/s through 5 G an answer are 20 a second.
    assert [row[1:3] for row in speed.rows if row[0].startswith("limit: fp32")] == [("20.0", "1.50x")]
    assert rows["B1"][3:] == ("120.0 (108.0 to 132.0)", "120 / 240 / 360", "100.0%")
    assert {row[0].partition(":")[0]: row[-1] for row in footprint.rows} == {"marsmith": "100", "B1": "800"}


def test_markdown_has_a_row_of_as_many_cells_for_each_subject_and_names_the_conditions() -> None:
    text = markdown(RESULTS)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {7, 8}
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

    from benchmarks.plots import plots

    written = plots(RESULTS, tmp_path / "plots")
    assert [path.name for path in written] == ["sentiment-tweets.png", "sentiment-tweets-latency.png"]
    for path in written:
        with Image.open(path) as image:
            assert len(set(image.convert("RGB").resize((64, 36)).get_flattened_data())) > 5
