"""Archives of tiny random checkpoints."""

from pathlib import Path

import pytest

from marsmith.builder import build
from tests.tiers import builds
from tests.tiny import food_checkpoint, sentiment_checkpoint, write_recipe


@pytest.fixture(scope="session")
@builds
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model store with both models."""
    home = tmp_path_factory.mktemp("store")
    directory = sentiment_checkpoint(tmp_path_factory.mktemp("sentiment"), model_type="roberta")
    build(write_recipe(directory, name="sentiment", normalise="tweet"), home)
    directory = food_checkpoint(tmp_path_factory.mktemp("food"))
    build(write_recipe(directory, name="food", task="food"), home)
    return home
