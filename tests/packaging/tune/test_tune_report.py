"""The table and the JSON document of a run."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

from rich.console import Console

from marsmith.configuration import Ports
from marsmith.recipe import Recipe
from marsmith.tune.measure import Bench
from marsmith.tune.recommend import recommend
from marsmith.tune.report import document, summary, table
from marsmith.tune.run import Refusal, Tuning
from marsmith.tune.setting import Choices
from tests.packaging.tune.rows import SETTING, row
from tests.tiny import write_recipe

ROWS = [row(), row(replace(SETTING, batch_size=1), per_second=50.25, failed=2)]


def tuning(directory: Path) -> Tuning:
    file = write_recipe(directory)
    recipe = Recipe.load(file)
    bench = Bench(recipe, Ports(), 2, [], clients=32, seconds=5.0)
    refused = [Refusal("int8", "The checkpoint's labels change on 4 [of] 100 inputs.")]
    return Tuning(recipe, file, Choices(2, ("fp32", "int8"), (1,)), bench, ROWS, refused)


def printed(what: object) -> list[str]:
    stream = StringIO()
    Console(file=stream, width=200).print(what)
    return stream.getvalue().splitlines()


def test_a_row_has_speed_memory_accuracy_and_failures() -> None:
    lines = printed(table(ROWS, recommend(ROWS), SETTING, clients=32))
    (first,) = (line for line in lines if "100.0 ±" in line)
    for figure in (
        "→ now",
        "1 x 2",
        "16",
        "5 ms",
        "100.0 ± 1.0",
        "300 / 400 ms",
        "10.0 ms",
        "190.7 MiB",
        "100.0% of 5",
    ):
        assert figure in first
    (second,) = (line for line in lines if "50.2 ±" in line)
    assert "→" not in second
    assert "—" in second  # alone, a request waits for nobody
    assert second.split()[-2] == "2"


def test_what_was_refused_says_why(tmp_path: Path) -> None:
    text = "\n".join(printed(summary(tuning(tmp_path), recommend(ROWS))))
    assert "not measured: int8: The checkpoint's labels change on 4 [of] 100 inputs." in text
    assert "Recommended: fp32, 1 x 2 threads, batches of 16, 5 ms gave the most requests/s, 100.0, of" in text


def test_other_work_on_the_machine_is_told(tmp_path: Path) -> None:
    run = tuning(tmp_path)
    assert "Other work" not in summary(run, None)
    run.rows = [*ROWS, row(others=1.25)]
    assert "Other work took up to 1.2 of 2 cores meanwhile" in summary(run, None)


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
