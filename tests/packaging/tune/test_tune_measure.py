"""What is served to be measured: the same archive, with another model-config.yaml."""

from dataclasses import replace
from pathlib import Path

import pytest

from marsmith import mar
from marsmith.builder import Built
from marsmith.configuration import Ports
from marsmith.manifest import CONFIG_FILE
from marsmith.recipe import Recipe
from marsmith.tune.measure import Bench, variant
from marsmith.tune.setting import Setting
from marsmith.verify import verify

CORES = 4
SETTING = Setting("fp32", workers=2, threads=2, batch_size=3, max_batch_delay_ms=7)


@pytest.fixture
def bench(sentiment_recipe: Path) -> Bench:
    return Bench(Recipe.load(sentiment_recipe), Ports(), CORES, [], clients=1, seconds=1.0)


@pytest.mark.parametrize(("threads", "said"), [(2, None), (1, 1)])
def test_only_the_configuration_differs_and_the_digests_say_so(
    sentiment_archive: Built, bench: Bench, tmp_path: Path, threads: int, said: int | None
) -> None:
    mar.extract(sentiment_archive.path, tmp_path / "unpacked")
    written = variant(bench.recipe, tmp_path / "unpacked", replace(SETTING, threads=threads), CORES, tmp_path / "v.mar")
    verify(written).require_ok()
    before, after = (mar.read_json(path, mar.DIGESTS)["members"] for path in (sentiment_archive.path, written))
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {CONFIG_FILE}
    config = mar.read_yaml(written, CONFIG_FILE)
    assert (config["minWorkers"], config["maxWorkers"]) == (2, 2)
    assert (config["batchSize"], config["maxBatchDelay"]) == (3, 7)
    assert config["handler"].get("threads") == said
