"""What TorchServe is started with: its archives, its configuration, and the environment of its workers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from marsmith import mar
from marsmith.configuration import UTF8, effective_config
from marsmith.container.cpu import Cpu
from marsmith.container.settings import DRAINING, MODELS, Settings
from marsmith.cores import intra_op_threads
from marsmith.errors import ArchiveError, ContainerError
from marsmith.java import java_home
from marsmith.resources import worker_site
from marsmith.store import model_name, workers_of
from marsmith.unpacked import verify_unpacked
from marsmith.untrusted import mapping
from marsmith.verify import verify

# Of model-config.yaml, what TorchServe takes from its own configuration where a manifest names no other.
KEPT = ("minWorkers", "maxWorkers", "batchSize", "maxBatchDelay", "responseTimeout", "startupTimeout")
CONFIG, TEMPORARY, LOGS = "config.properties", "tmp", "logs"


@dataclass(frozen=True, slots=True)
class Plan:
    """`archives` by the name of their model; `workers` of all of them, each with `threads` of the `cores`."""

    archives: Mapping[str, Path]
    cores: int
    workers: int
    threads: int
    bf16: bool


def find_archives(settings: Settings) -> dict[str, Path]:
    """The archives in the model store, or the tree that SageMaker unpacked, verified, by the name of their model.

    Raises ContainerError where there is none or two have one name, VerifyError for one that is not to be trusted,
    SigningError for a key that cannot be used, and ArchiveError. With models that come later there are none yet.
    """
    if settings.multi_model:
        return {}
    if settings.tree:
        verify_unpacked(settings.tree, settings.key)
        return {str(mapping(mar.read_json(settings.tree, mar.MANIFEST).get("model")).get("modelName")): settings.tree}
    paths = sorted(settings.model_store.glob("*.mar"))
    if not paths:
        raise ContainerError(
            f"There is no archive in {settings.model_store}: bake some in with marsmith image build, or mount a "
            "directory of .mar files there (MODEL_STORE names another one)."
        )
    archives: dict[str, Path] = {}
    for path in paths:
        verify(path, settings.key, require_signature=settings.require_signature).require_ok()
        name = model_name(path, path)
        if name in archives:
            raise ContainerError(f"{archives[name]} and {path} hold a model of one name: leave one of them out.")
        archives[name] = path
    return archives


def make_plan(archives: Mapping[str, Path], cpu: Cpu, cores: int) -> Plan:
    """The thread plan, and whether PyTorch may multiply in bfloat16 too: where every archive asks for that."""
    # Models that come later are asked in turn: each worker has all cores.
    workers = sum(workers_of(path) for path in archives.values()) or 1
    bf16 = cpu.has_bf16 and bool(archives) and all(_precision(path) == "bf16" for path in archives.values())
    return Plan(archives, cores, workers, intra_op_threads(cores, workers), bf16)


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
    }
    if settings.multi_model or settings.tree:
        # Byte code that a worker left beside a model would be no part of what was built.
        fixed["PYTHONDONTWRITEBYTECODE"] = "1"
    if settings.multi_model:
        fixed["MARSMITH_VERIFY"] = "yes"
        if settings.key:
            # Not under the variable's own name: workers are given nothing that is called a key.
            fixed["MARSMITH_VERIFY_WITH"] = str(settings.key)
    if home := java_home(dict(environ)):
        fixed["JAVA_HOME"] = str(home)
    return {**tuned, **environ, **fixed}


def write_config(plan: Plan, settings: Settings) -> Path:
    """config.properties as it is served with, beside it what the health check has to know.

    Raises ContainerError where the home cannot be written to.
    """
    config = settings.home / CONFIG
    try:
        for name in (TEMPORARY, LOGS):
            (settings.home / name).mkdir(parents=True, exist_ok=True)
        models = {name: _settings(path) for name, path in plan.archives.items() if path.is_dir()}
        config.write_text(effective_config(settings.ports, token=settings.token, models=models), encoding="utf-8")
        # One that was killed while it drained left its marker in a volume that outlives it.
        (settings.home / DRAINING).unlink(missing_ok=True)
        (settings.home / MODELS).write_text("".join(f"{name}\n" for name in plan.archives), encoding="utf-8")
    except OSError as error:
        raise ContainerError(
            f"{settings.home} cannot be written to ({error.strerror or error}): mount a volume or a tmpfs there that "
            f"user {os.getuid()} may write to."
        ) from None
    return config


def describe(plan: Plan, cpu: Cpu) -> Iterable[str]:
    """What an operator wants to see of a start, a line each."""
    yield f"CPU: {cpu.name}, {plan.cores} cores, bfloat16 {'yes' if cpu.has_bf16 else 'no'}"
    yield f"threads: {plan.workers} workers x {plan.threads}"
    if not plan.archives:
        yield "models: those that SageMaker names, each verified before it is loaded"
    for name, path in plan.archives.items():
        precision = _precision(path)
        yield f"model: {name}, {workers_of(path)} workers{f', {precision}' if precision else ''}, {path} is verified"


def _settings(tree: Path) -> dict[str, object]:
    """What [serving] says, since the manifest of a tree that was built for SageMaker names no configuration."""
    config = mar.read_yaml(tree, mar.CONFIG)
    version = str(mapping(mar.read_json(tree, mar.MANIFEST).get("model")).get("modelVersion"))
    return {
        version: {"defaultVersion": True, "marName": tree.name} | {key: config[key] for key in KEPT if key in config}
    }


def _precision(path: Path) -> str:
    try:
        return str(mapping(mar.read_json(path, mar.SERVING)).get("precision") or "")
    except ArchiveError:
        return ""
