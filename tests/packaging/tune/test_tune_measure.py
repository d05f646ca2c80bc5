"""What is served to be measured: the same archive, with another model-config.yaml."""

import os
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from marsmith.builder import Built
from marsmith.errors import TuneError
from marsmith.evidence.replay import Outcome
from marsmith.load.loops import NO_ANSWER
from marsmith.mar.members import CONFIG, DIGESTS
from marsmith.mar.reader import extract_archive, read_json, read_yaml
from marsmith.mar.verify import verify
from marsmith.recipe.recipe import Recipe
from marsmith.rest.client import Prediction
from marsmith.torchserve.configuration import Ports
from marsmith.tune.inputs import Inputs
from marsmith.tune.load import Load
from marsmith.tune.measure import Bench, failures_of, memory, told, variant
from marsmith.tune.setting import Setting

CORES = 4
SETTING = Setting("fp32", workers=2, threads=2, batch_size=3, max_batch_delay_ms=7)


@pytest.fixture
def bench(sentiment_recipe: Path) -> Bench:
    return Bench(Recipe.load(sentiment_recipe), Ports(), CORES, Inputs([], [], ""), clients=1, seconds=1.0)


@pytest.mark.parametrize(("threads", "said"), [(2, None), (1, 1)])
def test_only_the_configuration_differs_and_the_digests_say_so(
    sentiment_archive: Built, bench: Bench, tmp_path: Path, threads: int, said: int | None
) -> None:
    extract_archive(sentiment_archive.path, tmp_path / "unpacked")
    written = variant(bench.recipe, tmp_path / "unpacked", replace(SETTING, threads=threads), CORES, tmp_path / "v.mar")
    verify(written).require_ok()
    before, after = (read_json(path, DIGESTS)["members"] for path in (sentiment_archive.path, written))
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {CONFIG}
    config = read_yaml(written, CONFIG)
    assert (config["minWorkers"], config["maxWorkers"]) == (2, 2)
    assert (config["batchSize"], config["maxBatchDelay"]) == (3, 7)
    assert config["handler"].get("threads") == said


def load(statuses: dict[int, int], *latencies_ms: float) -> Load:
    return Load(1.0, 0.0, latencies_ms, statuses)


def test_failures_are_counted_by_their_status() -> None:
    golden = [
        Outcome("text 1", {}, Prediction(200, {}), []),
        Outcome("text 2", {}, Prediction(200, {}), ["answer.label"]),
        Outcome("text 3", {}, Prediction(413, {}), ["status 413"]),
    ]
    found = failures_of(golden, load({413: 2}, 1.0), load({NO_ANSWER: 1}, 1.0))
    assert found == {"wrong golden answer": 1, "413": 3, "no answer": 1}
    assert told(found) == "413: 3, no answer: 1, wrong golden answer: 1"


def test_where_everything_failed_measuring_longer_is_no_advice() -> None:
    with pytest.raises(TuneError, match=r"No request was answered rightly \(503: 7\): ask it with marsmith predict"):
        failures_of([], load({503: 3}), load({503: 4}))
    with pytest.raises(TuneError, match="measure longer with --seconds"):
        failures_of([], load({}), load({}))


@pytest.mark.parametrize(("pids", "workers"), [([], 1), ([os.getpid()], 2), ([2**22 + 1], 1)])
def test_a_worker_that_is_gone_spoils_its_row(pids: list[int], workers: int) -> None:
    with pytest.raises(TuneError, match="A worker ended while it was measured"):
        memory(pids, workers)


def test_memory_is_that_of_all_workers() -> None:
    assert memory([os.getpid()], 1) == pytest.approx(psutil.Process().memory_full_info().pss, rel=0.1)
