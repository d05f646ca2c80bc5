"""The files that TorchServe itself reads: MAR-INF/MANIFEST.json, model-config.yaml, requirements.txt."""

from __future__ import annotations

from importlib.metadata import version

import yaml

from marsmith.ground.serving import dump_json
from marsmith.mar.members import CONFIG, REQUIREMENTS
from marsmith.recipe.recipe import Recipe

# The stock writer puts the clock here, and TorchServe only shows it: a fixed instant keeps builds the same.
CREATED_ON = "01/01/1980 00:00:00"
ARCHIVER_VERSION = "0.12.0"


def manifest(recipe: Recipe, checkpoint: str) -> bytes:
    """MANIFEST.json in the stock schema; TorchServe ignores the key `marsmith`, which says what was built from what."""
    return dump_json(
        {
            "createdOn": CREATED_ON,
            "runtime": "python",
            "model": {
                "modelName": recipe.name,
                "handler": recipe.entry,
                "modelVersion": recipe.version,
                "requirementsFile": REQUIREMENTS,
                "configFile": CONFIG,
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
    if recipe.kind.section == "text":
        options["long_text"] = recipe.long_text
    if serving.threads is not None:
        options["threads"] = serving.threads
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


def requirements(recipe: Recipe) -> bytes:
    """The exact versions of what the worker imports, as they are here, where the export was checked against them.

    What a handler of one's own imports is as the recipe says.
    """
    pins = [f"{name}=={version(name)}" for name in recipe.kind.requirements]
    return "".join(f"{pin}\n" for pin in (*pins, *recipe.requirements)).encode("utf-8")
