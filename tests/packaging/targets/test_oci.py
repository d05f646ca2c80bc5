"""The files for registries: what the specifications ask for, and the same archive inside."""

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from marsmith.builder import Built
from marsmith.image.archive import read_image
from marsmith.image.tree import read_tree
from marsmith.mar.unpacked import verify_unpacked
from tests.packaging.targets.files import artefact


def blob(layout: tarfile.TarFile, descriptor: dict[str, Any]) -> bytes:
    stream = layout.extractfile(f"blobs/{descriptor['digest'].replace(':', '/')}")
    assert stream is not None
    content = stream.read()
    assert len(content) == descriptor["size"]
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" == descriptor["digest"]
    return content


def root(layout: tarfile.TarFile) -> dict[str, Any]:
    stream = layout.extractfile("index.json")
    assert stream is not None
    (descriptor,) = json.load(stream)["manifests"]
    assert descriptor["annotations"] == {"org.opencontainers.image.ref.name": "1.0"}
    return dict(descriptor)


def test_a_modelpack_names_its_parts_and_unpacks_into_the_archive(homes: Built, tmp_path: Path) -> None:
    """https://github.com/modelpack/model-spec: media types and keys."""
    with tarfile.open(artefact(homes, ".modelpack.tar")) as layout:
        manifest = json.loads(blob(layout, root(layout)))
        config = json.loads(blob(layout, manifest["config"]))
        for layer in manifest["layers"]:
            file = tmp_path / "layer.tar"
            file.write_bytes(blob(layout, layer))
            with tarfile.open(file) as tar:
                tar.extractall(tmp_path / "tree", filter="data")
    assert manifest["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
    assert manifest["config"]["mediaType"] == "application/vnd.cncf.model.config.v1+json"
    kinds = [
        (one["mediaType"].removeprefix("application/vnd.cncf.model."), one["annotations"]["org.cncf.model.filepath"])
        for one in manifest["layers"]
    ]
    assert kinds == [
        ("weight.v1.tar", "model/model.onnx"),
        ("weight.v1.tar", "model/model.weights"),
        ("weight.config.v1.tar", "model"),
        ("code.v1.tar", "."),
        ("doc.v1.tar", "MAR-INF"),
    ]
    assert config["descriptor"] == {"name": "sentiment", "version": "1.0", "family": "bert"}
    assert config["config"]["format"] == "onnx"
    assert config["config"]["precision"] == "float32"
    assert config["modelfs"] == {"type": "layers", "diffIds": [one["digest"] for one in manifest["layers"]]}
    verify_unpacked(tmp_path / "tree")


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_a_modelcar_shows_kserve_the_archive(homes: Built, architecture: str) -> None:
    image = read_image(artefact(homes, ".modelcar.tar"), architecture)
    assert image.architecture == architecture
    tree = read_tree(image, lambda _: True)
    assert sorted(path for path, file in tree.files.items() if file.kind == "file") == [
        "models/config/config.properties",
        "models/model-store/sentiment.mar",
    ]
    assert tree.files["models/model-store/sentiment.mar"].content == homes.path.read_bytes()
    config = (tree.files["models/config/config.properties"].content or b"").decode()
    properties = dict(line.split("=", 1) for line in config.splitlines())
    assert properties["model_store"] == "/mnt/models/model-store"
    snapshot = json.loads(properties["model_snapshot"])
    assert snapshot["models"]["sentiment"]["1.0"]["marName"] == "sentiment.mar"
    # KServe's envelopes read the first request of a batch alone.
    assert snapshot["models"]["sentiment"]["1.0"]["batchSize"] == 1
