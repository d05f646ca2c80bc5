"""What code/inference.py makes of SageMaker's environment: the handlers' thread plan needs the number of workers."""

import importlib.util
import os
import sys
from collections.abc import Mapping
from types import ModuleType

import pytest

from marsmith.targets.sagemaker import INFERENCE

TOOLKIT = "sagemaker_inference"


class NoToolkit:
    """Finds that it is not installed."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == TOOLKIT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.fixture
def inference(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as where there is no toolkit."""
    for name in [name for name in sys.modules if name.partition(".")[0] == TOOLKIT]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoToolkit, *sys.meta_path])
    spec = importlib.util.spec_from_file_location("inference", INFERENCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("environ", "workers"),
    [
        ({}, os.cpu_count()),
        ({"SAGEMAKER_MODEL_SERVER_WORKERS": "3"}, 3),
        ({"SAGEMAKER_TS_BATCH_SIZE": "8", "SAGEMAKER_MODEL_SERVER_WORKERS": "3"}, 1),
        ({"SAGEMAKER_TS_MIN_WORKERS": "2", "SAGEMAKER_TS_MAX_WORKERS": "4"}, 2),
        ({"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_TS_MIN_WORKERS": "2"}, 1),
    ],
)
def test_workers_are_those_that_the_toolkit_starts(
    inference: ModuleType, environ: Mapping[str, str], workers: int
) -> None:
    assert inference.workers(environ) == workers


def test_a_batch_has_the_time_that_the_toolkit_gives_it(inference: ModuleType) -> None:
    assert inference.response_timeout_s({}) == 60
    assert inference.response_timeout_s({"SAGEMAKER_MODEL_SERVER_TIMEOUT": "90"}) == 90
    both = {"SAGEMAKER_MODEL_SERVER_TIMEOUT": "90", "SAGEMAKER_TS_RESPONSE_TIMEOUT": "20"}
    assert inference.response_timeout_s(both) == 20
