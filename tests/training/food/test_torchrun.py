"""Two processes that torchrun starts, against one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.training.food.commands import logged, succeed
from training.bottleneck.records import read_run
from training.food.networks import Classifier
from training.food.run_folder import export

ROOT = Path(__file__).parents[3]
TORCHRUN = (
    sys.executable,
    "-m",
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node",
    "2",
    "-m",
    "training.food",
)
INTERVAL = 2  # steps between checkpoints


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TORCHRUN, *(str(argument) for argument in arguments)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def teacher(make_vit: Callable[..., Classifier], tmp_path: Path) -> Path:
    export(make_vit(layers=3), tmp_path / "teacher", torch.float32)
    return tmp_path / "teacher"


def options(epochs: int) -> tuple[object, ...]:
    return ("--layers", 2, "--epochs", epochs, "--batch", 8, "--lr", 2e-3, "--mixup", 0.3, "--threads", 1,
            "--log-steps", 1, "--dtype", "fp32", "--checkpoint-steps", INTERVAL)  # fmt: skip


@pytest.mark.slow
def test_two_processes_learn_as_one_and_share_the_optimizers_state(teacher: Path, data: Path, tmp_path: Path) -> None:
    (data / "train/Apple/0.png").write_bytes(b"broken")
    (data / "train/Red-Beet/1.png").write_bytes(b"broken")
    one, two = tmp_path / "one", tmp_path / "two"
    run = start("distil", teacher, data, two, *options(5), "--zero", "--timings", tmp_path / "times")
    succeed("distil", teacher, data, one, *options(5))
    _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert err.count("2 of 24 photos of train cannot be read") == 1
    assert len(logged(one)) == 10
    assert logged(two) == pytest.approx(logged(one), rel=1e-3)
    assert logged(two, "val_top1") == logged(one, "val_top1")
    alone, shared = (json.loads((folder / "report.json").read_text())["optimizer_bytes"] for folder in (one, two))
    assert len(shared) == 2
    assert max(shared) < 0.7 * alone[0]
    assert sum(shared) == pytest.approx(alone[0], rel=0.01)
    steps = read_run(tmp_path / "times").steps
    assert sorted({step.rank for step in steps}) == [0, 1]
    # Gradients travel between the two, and that is told from backward.
    assert all(step.phases["communication"] > 0 for step in steps)
    wanted, found = (load_file(folder / "model.safetensors") for folder in (one, two))
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=0.02, atol=5e-4)


@pytest.mark.slow
def test_a_killed_run_loses_one_interval_at_most_and_one_process_ends_it(
    teacher: Path, data: Path, tmp_path: Path
) -> None:
    whole, parts, epochs = tmp_path / "whole", tmp_path / "parts", 20
    run = start("distil", teacher, data, parts, *options(epochs), "--zero")
    deadline = time.monotonic() + 120
    while not (parts / "log.jsonl").is_file() or len(logged(parts)) < 7:
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(run.pid, signal.SIGKILL)
    # torchrun gives each process a session of its own.
    for child in children(parts):
        os.kill(child, signal.SIGKILL)
    run.communicate()
    reached = len(logged(parts))
    assert reached < 3 * epochs
    (kept,) = (parts / "resume").glob("step-*")
    assert reached - INTERVAL <= int(kept.name.removeprefix("step-"))
    Classifier.read(str(parts))
    succeed("distil", teacher, data, parts, *options(epochs), "--resume")
    succeed("distil", teacher, data, whole, *options(epochs))
    assert len(logged(parts)) == len(logged(whole)) == 3 * epochs
    assert logged(parts) == pytest.approx(logged(whole), rel=0.02)


def children(folder: Path) -> list[int]:
    """The processes that have `folder` on their command line."""
    found = list[int]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if str(folder).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
