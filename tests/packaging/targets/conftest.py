"""One build for every home."""

import tarfile
from pathlib import Path

import pytest

from marsmith.builder import Built, build

TARGETS = ("mar", "sagemaker", "djl", "oci")


@pytest.fixture(scope="session")
def homes(sentiment_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(sentiment_recipe, tmp_path_factory.mktemp("homes"), targets=TARGETS)


def artefact(built: Built, ending: str) -> Path:
    (path,) = (one.path for one in built.artefacts if one.path.name.endswith(ending))
    return path


@pytest.fixture
def sagemaker_tree(homes: Built, tmp_path: Path) -> Path:
    """What SageMaker unpacks."""
    return unpack(artefact(homes, ".sagemaker.tar.gz"), tmp_path / "ml" / "model")


@pytest.fixture
def djl_tree(homes: Built, tmp_path: Path) -> Path:
    return unpack(artefact(homes, ".djl.tar.gz"), tmp_path / "djl")


def unpack(path: Path, directory: Path) -> Path:
    with tarfile.open(path) as tar:
        tar.extractall(directory, filter="data")
    return directory
