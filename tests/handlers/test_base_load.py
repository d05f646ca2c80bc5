"""BatchHandler.initialize: settings, thread plan, and failures that TorchServe can report."""

import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handlers import plan
from handlers.base import BatchHandler
from handlers.food import FoodHandler
from handlers.sentiment import SentimentHandler
from tests.handlers.pictures import encode, picture
from tests.handlers.shouter import Shouter, make_root
from tests.handlers.worker import Post, Worker

ROOT = Path(__file__).parents[2]


class Unloadable(BatchHandler[str, str]):
    """Its load raises what the test gives it."""

    error: Exception

    def load(self) -> None:
        raise self.error


@pytest.mark.parametrize(
    "error",
    [KeyError("vocab"), ValueError("bad graph"), OSError(2, "No such file"), RuntimeError("r"), ImportError("i")],
)
def test_whatever_fails_at_load_is_reported_by_torchserve(tmp_path: Path, error: Exception) -> None:
    """pytorch/serve#1010, pytorch/serve#849, pytorch/serve#2030, pytorch/serve#3034

    TorchServe's worker answers RuntimeError and MemoryError, and no others.
    """
    handler = Unloadable()
    handler.error = error
    with pytest.raises(RuntimeError) as caught:
        Worker(handler, make_root(tmp_path))
    assert str(caught.value) == f"Model failed to load: {type(error).__name__}: {error}"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"handler": {"topk": 3}}, "model-config.yaml has handler options nobody reads: topk"),
        ({"handler": {"top_k": "x"}}, "handler option top_k is 'x': set it to a whole number, 1 or more"),
        ({"minWorkers": "two"}, "invalid literal"),
        ([1], "list"),
    ],
)
def test_a_wrong_configuration_is_reported_at_load(tmp_path: Path, config: Any, reason: str) -> None:
    with pytest.raises(RuntimeError, match=f"^Model failed to load: .*{reason}"):
        Worker(Shouter(), make_root(tmp_path), config)


def test_a_missing_serving_json_is_reported_at_load(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"^Model failed to load: serving\.json cannot be used"):
        Worker(Shouter(), tmp_path)


@pytest.mark.parametrize(
    ("config", "environ", "threads"),
    [
        (None, {}, 8),
        ({}, {}, 8),
        ({"minWorkers": 2}, {}, 4),
        ({"minWorkers": 3}, {}, 2),
        ({"minWorkers": 20}, {}, 1),
        ({"minWorkers": 2}, {"MARSMITH_WORKERS": "4"}, 2),
        ({"minWorkers": 2}, {"MARSMITH_WORKERS": ""}, 4),
        ({"minWorkers": 2, "handler": {"threads": 3}}, {}, 3),
        ({"minWorkers": 2, "handler": {"threads": 0}}, {}, 4),
        ({"minWorkers": 2, "handler": {"threads": 3}}, {"MARSMITH_THREADS": "5"}, 5),
        ({"minWorkers": 2, "handler": None}, {}, 4),
    ],
)
def test_the_workers_share_the_cores_unless_threads_are_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: Any, environ: dict[str, str], threads: int
) -> None:
    """pytorch/serve#2432, pytorch/serve#2023, pytorch/serve#1128, pytorch/serve#1138"""
    monkeypatch.setattr(plan, "available_cores", lambda: 8)
    monkeypatch.delenv("MARSMITH_WORKERS", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    handler = Shouter()
    Worker(handler, make_root(tmp_path), config)
    assert handler.threads == threads


@pytest.mark.parametrize(
    ("handler", "post"),
    [(SentimentHandler(), Post.json("a great day")), (FoodHandler(), Post(encode(picture(40, 30))))],
    ids=["text", "image"],
)
def test_nothing_is_left_to_load_for_the_first_request(
    text_roots: dict[str, Path], image_root: Path, tmp_path: Path, handler: BatchHandler[Any, Any], post: Post
) -> None:
    """pytorch/serve#3261: what a first request loads counts against its response timeout, not start-up's."""
    root = tmp_path / "root"
    shutil.copytree(text_roots["bert"] if isinstance(handler, SentimentHandler) else image_root, root)
    worker = Worker(handler, root, {"handler": {"threads": 1}})
    modules = set(sys.modules)
    shutil.rmtree(root)
    (answer,) = worker.predict(post)
    assert answer.status == 200
    assert set(sys.modules) == modules


def test_the_thread_plan_is_logged_at_load(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "marsmith"):
        Worker(Shouter(), make_root(tmp_path, threads=3))
    assert caplog.messages[-1] == "shouter 1.0 loaded, 3 threads, warmed up by 0 golden instances"


def test_a_worker_imports_neither_torch_nor_transformers_nor_marsmith() -> None:
    """Design rule 1. Imports cost seconds and memory in every worker."""
    code = (
        "import sys, handlers.sentiment, handlers.food;"
        "print(sorted({'torch', 'transformers', 'ts', 'marsmith', 'onnx'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")
