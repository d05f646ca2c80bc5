"""Two files for registries: NAME.modelpack.tar, the archive's tree as a CNCF ModelPack artifact, and NAME.modelcar.tar.

The first follows https://github.com/modelpack/model-spec, and is the archive unpacked once its layers are. The second
is an image of no base with KServe's layout for TorchServe under /models: the archive in model-store/, and config/.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from marsmith.ground.serving import Engine, Precision
from marsmith.mar.members import Source
from marsmith.recipe.members import MODEL
from marsmith.recipe.recipe import Recipe
from marsmith.targets.layout import Descriptor, Layout
from marsmith.targets.target import Packed

PACK = "application/vnd.cncf.model"
FILE_PATH = "org.cncf.model.filepath"
WEIGHTS = ("model.onnx", "model.weights")
PRECISIONS: dict[Precision, str] = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}
IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json"
IMAGE_LAYER = "application/vnd.oci.image.layer.v1.tar"
ARCHITECTURES = ("amd64", "arm64")
MODELS = PurePosixPath("models")
# Where KServe shows /models to the server.
MOUNTED = "/mnt/models"
# KServe sets TS_SERVICE_ENVELOPE to kserve or kservev2, envelopes that read the first request of a batch and drop the
# others (ts.torch_handler.request_envelope).
BATCH_SIZE = 1
# https://kserve.github.io, the TorchServe runtime: its ports, and the requirements of archives installed at load.
KSERVE = """\
inference_address=http://0.0.0.0:8085
management_address=http://0.0.0.0:8085
metrics_address=http://0.0.0.0:8082
grpc_inference_port=7070
grpc_management_port=7071
enable_envvars_config=true
install_py_dep_per_model=true
disable_token_authorization=true
"""


def check(recipe: Recipe, engine: Engine | None) -> None:
    """Whatever an archive holds can be carried."""


def write(packed: Packed, out: Path) -> list[Path]:
    """Write both files into `out`. Raises ArchiveError."""
    pack, car = (out / f"{packed.recipe.name}.{kind}.tar" for kind in ("modelpack", "modelcar"))
    with tempfile.TemporaryDirectory(prefix="marsmith-") as scratch:
        _write_pack(packed, Layout(Path(scratch)), pack)
    with tempfile.TemporaryDirectory(prefix="marsmith-") as scratch:
        _write_car(packed, Layout(Path(scratch)), car)
    return [pack, car]


def _write_pack(packed: Packed, layout: Layout, path: Path) -> None:
    """One layer for each file of weights, and one each for what is read beside them, the code and the papers."""
    tree = packed.tree
    weights = [MODEL / name for name in WEIGHTS if MODEL / name in tree]
    papers = [name for name in tree if name.parts[0] == "MAR-INF"]
    beside = [name for name in tree if name.is_relative_to(MODEL) and name not in weights]
    code = [name for name in tree if name not in {*weights, *papers, *beside}]

    def layer(names: list[PurePosixPath], kind: str, file_path: str) -> Descriptor:
        return layout.layer({name: tree[name] for name in names}, f"{PACK}.{kind}.v1.tar", {FILE_PATH: file_path})

    layers = [layer([name], "weight", str(name)) for name in weights]
    layers.append(layer(beside, "weight.config", str(MODEL)))
    layers.append(layer(code, "code", "."))
    layers.append(layer(papers, "doc", "MAR-INF"))
    config = _pack_config(packed, [str(one["digest"]) for one in layers])
    root = layout.manifest(
        layout.json(config, f"{PACK}.config.v1+json"),
        layers,
        artifactType=f"{PACK}.manifest.v1+json",
        annotations=_annotations(packed.recipe),
    )
    layout.write(path, root | {"artifactType": f"{PACK}.manifest.v1+json"}, packed.recipe.version)


def _pack_config(packed: Packed, diff_ids: list[str]) -> dict[str, Any]:
    recipe = packed.recipe
    descriptor: dict[str, Any] = {"name": recipe.name, "version": recipe.version}
    technical: dict[str, Any] = {}
    if recipe.description:
        descriptor["description"] = recipe.description
    if recipe.license:
        descriptor["licenses"] = [recipe.license]
    config = packed.members.get(MODEL / "config.json")
    if isinstance(config, bytes):
        descriptor["family"] = json.loads(config)["model_type"]
        technical["precision"] = PRECISIONS[recipe.precision]
    if MODEL / "model.onnx" in packed.members:
        technical["format"] = "onnx"
    if recipe.kind.section:
        technical["capabilities"] = {"inputTypes": [recipe.kind.section], "outputTypes": ["other"]}
    return {"descriptor": descriptor, "config": technical, "modelfs": {"type": "layers", "diffIds": diff_ids}}


def _annotations(recipe: Recipe) -> dict[str, str]:
    annotations = {"title": recipe.name, "version": recipe.version}
    if recipe.description:
        annotations["description"] = recipe.description
    if recipe.license:
        annotations["licenses"] = recipe.license
    return {f"org.opencontainers.image.{key}": value for key, value in annotations.items()}


def _write_car(packed: Packed, layout: Layout, path: Path) -> None:
    """Two architectures share the layers, since a node takes no image of another one."""
    recipe = packed.recipe
    files: list[dict[PurePosixPath, Source]] = [
        {MODELS / "config/config.properties": _kserve_config(recipe)},
        {MODELS / f"model-store/{recipe.name}.mar": packed.archive},
    ]
    layers = [layout.layer(members, IMAGE_LAYER) for members in files]
    diff_ids = [one["digest"] for one in layers]
    manifests = []
    for architecture in ARCHITECTURES:
        platform = {"architecture": architecture, "os": "linux"}
        config = {**platform, "config": {}, "rootfs": {"type": "layers", "diff_ids": diff_ids}}
        manifest = layout.manifest(layout.json(config, IMAGE_CONFIG), layers, annotations=_annotations(recipe))
        manifests.append(manifest | {"platform": platform})
    layout.write(path, layout.index(manifests), recipe.version)


def _kserve_config(recipe: Recipe) -> bytes:
    """config.properties as KServe's TorchServe runtime looks for it: it finds its models in the snapshot."""
    serving = recipe.serving
    model = {
        "defaultVersion": True,
        "marName": f"{recipe.name}.mar",
        "minWorkers": serving.workers,
        "maxWorkers": serving.workers,
        "batchSize": BATCH_SIZE,
        "maxBatchDelay": serving.max_batch_delay_ms,
        "responseTimeout": serving.response_timeout_s,
    }
    models = {recipe.name: {recipe.version: model}}
    snapshot = json.dumps({"name": "startup.cfg", "modelCount": 1, "models": models})
    return f"{KSERVE}model_store={MOUNTED}/model-store\nmodel_snapshot={snapshot}\n".encode()
