"""What TorchServe is started with: its archives, its configuration, and the environment of its workers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from marsmith.container.admission import admit_archive, admit_tree
from marsmith.container.cpu import Cpu
from marsmith.container.settings import DRAINING, MODELS, STORE, Settings
from marsmith.errors import ArchiveError, ContainerError
from marsmith.ground.cores import intra_op_threads
from marsmith.ground.untrusted import mapping
from marsmith.mar.members import SERVING
from marsmith.mar.reader import read_json
from marsmith.resources import worker_site
from marsmith.torchserve.configuration import UTF8, effective_config
from marsmith.torchserve.java import java_home
from marsmith.torchserve.store import startup_timeout_s, workers_of

CONFIG, TEMPORARY, LOGS = "config.properties", "tmp", "logs"


@dataclass(frozen=True, slots=True)
class Plan:
    """`models`, where each is unpacked by its name; `workers` of all of them, each with `threads` of the `cores`."""

    models: Mapping[str, Path]
    cores: int
    workers: int
    threads: int
    bf16: bool


def admit_models(settings: Settings) -> dict[str, Path]:
    """Take the archives in the model store, or the tree that SageMaker unpacked, into the container's own store.

    Returns where each came from, by the name of its model. With models that come later there are none yet. Raises
    ContainerError where there is no archive, two have the same name, or the home cannot be written to, VerifyError for
    a model that is not sound, SigningError for a key that cannot be used, and ArchiveError.
    """
    # One that was killed left its own, in a volume that outlives it.
    shutil.rmtree(settings.store, ignore_errors=True)
    if settings.multi_model:
        return {}
    if settings.tree:
        return {admit_tree(settings.tree, settings): settings.tree}
    paths = sorted(settings.model_store.glob("*.mar"))
    if not paths:
        raise ContainerError(
            f"There is no archive in {settings.model_store}: bake some in with marsmith image build, or mount a "
            "directory of .mar files there (MODEL_STORE names another one)."
        )
    return {admit_archive(path, settings): path for path in paths}


def make_plan(models: Mapping[str, Path], cpu: Cpu, cores: int) -> Plan:
    """The thread plan for unpacked models, and whether PyTorch may multiply in bfloat16: where all ask so."""
    # Models that come later are asked in turn: each worker has all cores.
    workers = sum(workers_of(tree) for tree in models.values()) or 1
    bf16 = cpu.has_bf16 and bool(models) and all(_precision(tree) == "bf16" for tree in models.values())
    return Plan(models, cores, workers, intra_op_threads(cores, workers), bf16)


def environment(plan: Plan, settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of TorchServe and its workers; what somebody set already stays.

    The variables for Arm are those of AWS's Graviton guide for PyTorch; OMP_PLACES without OMP_PROC_BIND binds nothing.
    """
    tuned = {
        "OMP_NUM_THREADS": str(plan.threads),
        # NumPy multiplies nothing here, and its idle threads may spin, which looks like work when requests are drained.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_PROC_BIND": "false",
        "OMP_PLACES": "cores",
        "LRU_CACHE_CAPACITY": "1024",
        "THP_MEM_ALLOC_ENABLE": "1",
        "MARSMITH_WORKERS": str(plan.workers),
        **({"DNNL_DEFAULT_FPMATH_MODE": "BF16"} if plan.bf16 else {}),
    }
    logs = str(settings.home / LOGS)
    python_path = [str(worker_site()), *filter(None, [environ.get("PYTHONPATH")])]
    fixed = {
        "PYTHONPATH": os.pathsep.join(python_path),
        "HOME": str(settings.home),
        "TEMP": str(settings.home / TEMPORARY),
        "TMPDIR": str(settings.home / TEMPORARY),
        "LOG_LOCATION": logs,
        "METRICS_LOCATION": logs,
        **UTF8,
        # Byte code that a worker left beside a model would be no part of what was built.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if home := java_home(dict(environ)):
        fixed["JAVA_HOME"] = str(home)
    return {**tuned, **environ, **fixed}


def write_config(plan: Plan, settings: Settings) -> Path:
    """config.properties as it is served with, beside it what the health check has to know.

    Raises ContainerError where the home cannot be written to.
    """
    config = settings.home / CONFIG
    try:
        for name in (TEMPORARY, LOGS, STORE):
            (settings.home / name).mkdir(parents=True, exist_ok=True)
        config.write_text(effective_config(settings.ports, token=settings.token), encoding="utf-8")
        # One that was killed while it drained left its marker in a volume that outlives it.
        (settings.home / DRAINING).unlink(missing_ok=True)
        (settings.home / MODELS).write_text("".join(f"{name}\n" for name in plan.models), encoding="utf-8")
    except OSError as error:
        raise ContainerError(
            f"{settings.home} cannot be written to ({error.strerror or error}): mount a volume or a tmpfs there that "
            f"user {os.getuid()} may write to."
        ) from None
    return config


def describe(plan: Plan, cpu: Cpu, sources: Mapping[str, Path]) -> Iterable[str]:
    """What an operator wants to see of a start, a line each; `sources` says where each model came from."""
    yield f"CPU: {cpu.name}, {plan.cores} cores, bfloat16 {'yes' if cpu.has_bf16 else 'no'}"
    yield f"threads: {plan.workers} workers x {plan.threads}"
    if not plan.models:
        yield "models: those that SageMaker names, each verified before it is loaded"
    for name, tree in plan.models.items():
        precision = _precision(tree)
        workers = f"{workers_of(tree)} workers{f', {precision}' if precision else ''}"
        yield f"model: {name}, {workers}, start-up within {startup_timeout_s(tree)} s, {sources[name]} is verified"


def _precision(path: Path) -> str:
    try:
        return str(mapping(read_json(path, SERVING)).get("precision") or "")
    except ArchiveError:
        return ""
