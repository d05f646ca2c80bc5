"""The files that TorchServe itself reads: MAR-INF/MANIFEST.json, model-config.yaml, requirements.txt."""

from __future__ import annotations

from importlib.metadata import version

import yaml

from marsmith.recipe import Recipe
from marsmith.serving import dump_json

CONFIG_FILE = "model-config.yaml"
REQUIREMENTS_FILE = "requirements.txt"
# The stock writer puts the clock here, and TorchServe only shows it: a fixed instant keeps builds the same.
CREATED_ON = "01/01/1980 00:00:00"
ARCHIVER_VERSION = "0.12.0"

# What the handlers import, beside the standard library. Never torch: the server's own must stay.
WORKER_REQUIREMENTS = {
    "sentiment": ("numpy", "onnxruntime", "tokenizers"),
    "food": ("numpy", "onnxruntime", "pillow"),
}


def manifest(recipe: Recipe, entry: str, checkpoint: str) -> bytes:
    """MANIFEST.json in the stock schema; TorchServe ignores the key `marsmith`, which says what was built from what."""
    return dump_json(
        {
            "createdOn": CREATED_ON,
            "runtime": "python",
            "model": {
                "modelName": recipe.name,
                "handler": entry,
                "modelVersion": recipe.version,
                "requirementsFile": REQUIREMENTS_FILE,
                "configFile": CONFIG_FILE,
            },
            "archiverVersion": ARCHIVER_VERSION,
            "marsmith": {"version": version("marsmith"), "task": recipe.task, "checkpoint": checkpoint},
        }
    )


def model_config(recipe: Recipe) -> bytes:
    """model-config.yaml with every key explicit, since TorchServe's defaults differ by where a value comes from.

    minWorkers equals maxWorkers: TorchServe never scales by load, and ignores the pair when one is missing.
    """
    serving = recipe.serving
    options: dict[str, object] = {"top_k": recipe.top_k, "explain_runs": recipe.explain_runs}
    if recipe.task == "sentiment":
        options["long_text"] = recipe.long_text
    config = {
        "minWorkers": serving.workers,
        "maxWorkers": serving.workers,
        "batchSize": serving.batch_size,
        "maxBatchDelay": serving.max_batch_delay_ms,
        "responseTimeout": serving.response_timeout_s,
        "startupTimeout": serving.startup_timeout_s,
        "maxRetryTimeoutInSec": serving.max_retry_timeout_s,
        "jobQueueSize": serving.job_queue_size,
        "clientTimeoutInMills": 0,
        "useJobTicket": False,
        "deviceType": "cpu",
        "useVenv": False,
        "handler": options,
    }
    return yaml.safe_dump(config, sort_keys=False).encode("utf-8")


def requirements(task: str) -> bytes:
    """The exact versions of what the worker imports, as they are here, where the export was checked against them."""
    return "".join(f"{name}=={version(name)}\n" for name in WORKER_REQUIREMENTS[task]).encode("utf-8")
