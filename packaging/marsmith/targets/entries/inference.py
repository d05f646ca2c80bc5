"""The module that SageMaker's PyTorch containers import from code/: it hands TorchServe's batches to the model whole.

The AWS toolkit (sagemaker_inference.transformer) would ask about one request after the other, each under the headers
of the first, and answer a whole batch with one element when one of them fails. So its `transform` is replaced here.
Where there is no toolkit, TorchServe calls `handle` itself.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import yaml

MANIFEST = "MAR-INF/MANIFEST.json"
CONFIG = "model-config.yaml"
# Each of them makes the toolkit write down all of them, by these names and defaults.
SETTINGS = "SAGEMAKER_TS_"
MIN_WORKERS, RESPONSE_TIMEOUT = SETTINGS + "MIN_WORKERS", SETTINGS + "RESPONSE_TIMEOUT"
MIN_WORKERS_DEFAULT = 1
# What counts where none of them is set.
WORKERS, TIMEOUT, MULTI_MODEL = (
    "SAGEMAKER_MODEL_SERVER_WORKERS",
    "SAGEMAKER_MODEL_SERVER_TIMEOUT",
    "SAGEMAKER_MULTI_MODEL",
)
TIMEOUT_S_DEFAULT = 60


class Model:
    """The handler of the tree in `directory`, loaded as TorchServe would have loaded it."""

    def __init__(self, directory: Path, context: Any) -> None:
        # TorchServe's Python path has the tree already; whoever calls the toolkit in another way has not.
        if str(directory) not in sys.path:
            sys.path.insert(1, str(directory))
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        module = _module(directory / manifest["marsmith"]["handler"])
        config = yaml.safe_load((directory / CONFIG).read_text(encoding="utf-8"))
        settings = {
            "handler": config["handler"],
            "minWorkers": workers(os.environ),
            "responseTimeout": min(response_timeout_s(os.environ), config["responseTimeout"]),
        }
        loading = SimpleNamespace(
            system_properties={**context.system_properties, "model_dir": str(directory)},
            manifest=manifest,
            model_yaml_config=settings,
        )
        function = getattr(module, "handle", None)
        if function is not None:
            self.handle = function
            function(None, loading)
            return
        (kind,) = (one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__)
        handler = kind()
        handler.initialize(loading)
        self.handle = handler.handle


def _module(file: Path) -> ModuleType:
    """The module in a file, under a name that no other module has: this one may have its own."""
    name = f"marsmith_entry_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{file.name} is no Python module.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def workers(environ: Mapping[str, str]) -> int:
    """How many workers the toolkit lets TorchServe start for this model, which share the machine's cores."""
    if environ.get(MULTI_MODEL) == "true":
        return 1
    if any(name.startswith(SETTINGS) for name in environ):
        return int(environ.get(MIN_WORKERS) or MIN_WORKERS_DEFAULT)
    return int(environ.get(WORKERS) or os.cpu_count() or 1)


def response_timeout_s(environ: Mapping[str, str]) -> int:
    """The seconds after which the toolkit lets TorchServe end a worker that has not answered a batch."""
    return int(environ.get(RESPONSE_TIMEOUT) or environ.get(TIMEOUT) or TIMEOUT_S_DEFAULT)


def model_fn(model_dir: str, context: Any) -> Model:
    """What the toolkit calls once."""
    return Model(Path(model_dir), context)


def transform(transformer: Any, data: Any, context: Any) -> Any:
    """What the toolkit calls for each batch, in place of its own loop: one body for each request, always."""
    transformer.validate_and_initialize(model_dir=context.system_properties.get("model_dir"), context=context)
    return transformer._model.handle(data, context)


try:
    from sagemaker_inference.transformer import Transformer
except ModuleNotFoundError as missing:
    if missing.name != "sagemaker_inference":
        raise
else:
    if "transform" not in vars(Transformer):
        raise RuntimeError("This sagemaker-inference has no Transformer.transform: take version 1.10.")
    # A worker has one model, so nobody else's is touched.
    Transformer.transform = transform

_loaded: list[Model] = []


def handle(data: Any, context: Any) -> Any:
    """What TorchServe calls where it serves without the toolkit: to load, and then for each batch."""
    if not _loaded:
        _loaded.append(Model(Path(context.system_properties["model_dir"]), context))
    return None if data is None else _loaded[0].handle(data, context)
