"""What a build for every home wrote, and how a home unpacks it."""

import tarfile
from pathlib import Path

from marsmith.builder import Built

TARGETS = ("mar", "sagemaker", "djl", "oci")


def artefact(built: Built, ending: str) -> Path:
    (path,) = (one.path for one in built.artefacts if one.path.name.endswith(ending))
    return path


def unpack(path: Path, directory: Path) -> Path:
    with tarfile.open(path) as tar:
        tar.extractall(directory, filter="data")
    return directory
