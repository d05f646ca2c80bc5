"""The table and the JSON document of a run."""

import json
import os
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from marsmith.cli.tune_report import document, legend, show, summary, table
from marsmith.recipe.recipe import Recipe
from marsmith.torchserve.configuration import Ports
from marsmith.tune.inputs import Inputs
from marsmith.tune.measure import Bench
from marsmith.tune.recommend import recommend
from marsmith.tune.run import Refusal, Tuning
from marsmith.tune.setting import Choices, setting_of
from tests.packaging.tune.rows import SETTING, row
from tests.tiny import write_recipe

ROWS = [row(), row(replace(SETTING, batch_size=1), per_second=50.25, failures={"503": 2})]


def tuning(directory: Path) -> Tuning:
    file = write_recipe(directory)
    recipe = Recipe.load(file)
    bench = Bench(recipe, Ports(), 2, Inputs([], [], ""), clients=32, seconds=5.0)
    refused = [Refusal("int8", "The checkpoint's labels change on 4 [of] 100 inputs.")]
    return Tuning(recipe, file, Choices(2, ("fp32", "int8"), (1,)), bench, ROWS, refused)


def printed(what: object) -> list[str]:
    stream = StringIO()
    Console(file=stream, width=200).print(what)
    return stream.getvalue().splitlines()


def test_a_row_has_speed_memory_accuracy_and_failures() -> None:
    lines = printed(table(ROWS, recommend(ROWS), SETTING))
    (first,) = (line for line in lines if "100±" in line)
    assert first.split() == ["→=", "fp32", "1x2", "16", "5", "100±1.0", "300/400", "10.0", "191", "100", "1e-06", "0"]
    (second,) = (line for line in lines if "50.2±" in line)
    assert second.split() == ["fp32", "1x2", "1", "—", "50.2±1.0", "300/400", "10.0", "191", "100", "1e-06", "2"]


LARGE = row(
    replace(SETTING, workers=16, threads=16, batch_size=128, max_batch_delay_ms=100),
    per_second=1234.5,
    noise=123.4,
    p50_ms=1234.5,
    p95_ms=12345.0,
    lone_p50_ms=1234.5,
    memory_bytes=12_000_000_000,
    failures={"503": 1234},
)


@pytest.mark.parametrize("terminal", [True, False])
def test_eighty_columns_hold_every_value_of_large_figures_too(terminal: bool) -> None:
    stream = StringIO()
    show(
        table([*ROWS, LARGE], None, SETTING), Console(file=stream, width=80, force_terminal=terminal, color_system=None)
    )
    text = stream.getvalue()
    assert "…" not in text
    assert "16x16" in text
    assert "1234±123" in text
    assert "1234/12345" in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_is_no_terminal_gets_whole_lines_at_any_width() -> None:
    stream = StringIO()
    show(table([LARGE], None, SETTING), Console(file=stream, width=20))
    assert "…" not in stream.getvalue()
    assert "1234/12345" in stream.getvalue()


def test_the_legend_says_how_many_asked() -> None:
    assert "p50/p95 of 32 clients" in legend(32)


def test_what_was_refused_says_why(tmp_path: Path) -> None:
    text = "\n".join(printed(summary(tuning(tmp_path), recommend(ROWS))))
    assert "not measured: int8: The checkpoint's labels change on 4 [of] 100 inputs." in text
    assert "Recommended: fp32, 1 x 2 threads, batches of 16, 5 ms gave the most requests/s, 100.0, of" in text


def test_a_recipe_that_was_not_measured_as_it_is_is_told(tmp_path: Path) -> None:
    run = tuning(tmp_path)
    as_it_is = setting_of(run.recipe, 2)
    assert f"The recipe as it is ({as_it_is}) was not measured" in summary(run, None)
    run.rows = [row(as_it_is)]
    assert "was not measured" not in summary(run, None)


def test_other_work_is_held_against_the_cores_that_were_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    run = tuning(tmp_path)
    run.rows = [*ROWS, row(others=6.3)]
    assert "Other work" not in summary(run, None)
    run.rows = [*ROWS, row(others=6.5)]
    assert "Other work took up to 6.5 of 64 cores meanwhile" in summary(run, None)


def test_the_document_is_json_with_the_machine_beside_the_figures(tmp_path: Path) -> None:
    found = json.loads(json.dumps(document(tuning(tmp_path), recommend(ROWS), "3 golden requests")))
    assert found["recommended"]["setting"] == found["rows"][0]["setting"]
    assert found["rows"][0]["setting"]["batch_size"] == 16
    assert found["rows"][1]["failed"] == 2
    assert found["refused"][0]["what"] == "int8"
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["cpu"]
    assert found["machine"]["versions"]["torchserve"] == "0.12.0"
    assert document(tuning(tmp_path), None, "")["recommended"] is None
