"""Archives of tiny random checkpoints, built once, and one server of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from marsmith.builder import Built, build
from marsmith.torchserve.server import Server
from tests.packaging.ports import free_ports
from tests.tiers import builds
from tests.tiny import food_checkpoint, sentiment_checkpoint, write_recipe

NUTRITION = (
    "label,food,energy_kcal,protein_g,fat_g,carbohydrate_g,sugar_g,fibre_g,salt_g,serving_g,source,source_id,licence\n"
    'apple,"Apple, raw",61,0.2,0.2,14.8,12.1,2.1,,200,USDA,1,public domain\n'
)


@pytest.fixture(scope="session")
def sentiment_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sentiment")
    sentiment_checkpoint(directory)
    return write_recipe(directory, name="sentiment", task="sentiment", checkpoint=".", normalise="tweet")


@pytest.fixture(scope="session")
def food_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("food")
    food_checkpoint(directory, labels=("apple", "pear", "plum"))
    (directory / "nutrition.csv").write_text(NUTRITION)
    return write_recipe(directory, name="food", task="food", checkpoint=".", nutrition="nutrition.csv")


@pytest.fixture(scope="session")
@builds
def sentiment_archive(sentiment_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(sentiment_recipe, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="session")
@builds
def food_archive(food_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(food_recipe, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="session")
def server(sentiment_archive: Built, food_archive: Built) -> Iterator[Server]:
    """A running TorchServe, shared by the tests that only ask it."""
    with Server([sentiment_archive.path, food_archive.path], free_ports()) as running:
        running.start()
        running.wait_ready()
        yield running
