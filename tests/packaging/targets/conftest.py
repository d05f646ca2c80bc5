"""One build for every home."""

from pathlib import Path

import pytest

from marsmith.builder import Built, build
from tests.packaging.targets.files import TARGETS, artefact, unpack
from tests.tiers import builds


@pytest.fixture(scope="session")
@builds
def homes(sentiment_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(sentiment_recipe, tmp_path_factory.mktemp("homes"), targets=TARGETS)


@pytest.fixture
def sagemaker_tree(homes: Built, tmp_path: Path) -> Path:
    """Where SageMaker unpacks it."""
    return unpack(artefact(homes, ".sagemaker.tar.gz"), tmp_path / "ml" / "model")


@pytest.fixture
def djl_tree(homes: Built, tmp_path: Path) -> Path:
    return unpack(artefact(homes, ".djl.tar.gz"), tmp_path / "djl")
