"""NAME.djl.tar.gz: a model directory of DJL Serving's Python engine.

The archive's tree lies in `archive/`, byte for byte as it is unpacked: with a MAR-INF beside serving.properties DJL
would load the model as TorchServe's, one request at a time, and go on serving when that fails.
"""

from __future__ import annotations

import ast
from pathlib import Path, PurePosixPath

from marsmith.errors import TargetError
from marsmith.ground.serving import Engine
from marsmith.mar.members import REQUIREMENTS, Source
from marsmith.recipe.recipe import Recipe
from marsmith.targets.tarball import write_tar_gz
from marsmith.targets.target import Packed

ARCHIVE = PurePosixPath("archive")
MODEL = Path(__file__).with_name("entries") / "model.py"
# Seconds without a request after which DJL ends workers beyond minWorkers; here there are none beyond.
MAX_IDLE_S = 60
TORCHSERVE = "ts"


def check(recipe: Recipe, engine: Engine | None) -> None:
    """Raise TargetError for what needs more than DJL's Python has: TorchServe itself, or torch."""
    if engine == "PyTorch":
        raise TargetError(
            f"The network of {recipe.name} runs in PyTorch, which DJL Serving's Python need not have: leave the target "
            "djl out."
        )
    if recipe.handler and TORCHSERVE in _imports(recipe.directory / recipe.handler):
        raise TargetError(
            f"The handler {recipe.handler} imports TorchServe ({TORCHSERVE}), which DJL Serving does not have: leave "
            "the target djl out, or the import."
        )


def write(packed: Packed, out: Path) -> list[Path]:
    """Write `out`/NAME.djl.tar.gz. Raises ArchiveError."""
    path = out / f"{packed.recipe.name}.djl.tar.gz"
    members: dict[PurePosixPath, Source] = {ARCHIVE / name: source for name, source in packed.tree.items()}
    members[PurePosixPath("serving.properties")] = properties(packed.recipe)
    members[PurePosixPath(MODEL.name)] = MODEL
    members[PurePosixPath(REQUIREMENTS)] = packed.members[PurePosixPath(REQUIREMENTS)]
    write_tar_gz(path, members)
    return [path]


def properties(recipe: Recipe) -> bytes:
    """serving.properties, by https://docs.djl.ai: the keys of [serving] as DJL spells them.

    There are as many workers at most as at least: DJL's documentation advises against starting more under load.
    """
    serving = recipe.serving
    environment = [f"MARSMITH_WORKERS={serving.workers}"]
    if serving.threads is not None:
        environment.append(f"MARSMITH_THREADS={serving.threads}")
    values = {
        "engine": "Python",
        "option.entryPoint": MODEL.name,
        "option.handler": "handle",
        "option.env": ",".join(environment),
        "option.model_loading_timeout": serving.startup_timeout_s,
        "option.predict_timeout": serving.response_timeout_s,
        "load_on_devices": "-1",
        "minWorkers": serving.workers,
        "maxWorkers": serving.workers,
        "batch_size": serving.batch_size,
        "max_batch_delay": serving.max_batch_delay_ms,
        "max_idle_time": MAX_IDLE_S,
        "job_queue_size": serving.job_queue_size,
    }
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode("ascii")


def _imports(handler: Path) -> set[str]:
    """The packages that a file imports, wherever in it. One that does not parse was refused before."""
    try:
        tree = ast.parse(handler.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return set()
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {name.partition(".")[0] for name in names}
