"""A training that is killed goes on where its last checkpoint was, and ends as if nothing had happened."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from tests.training.sentiment.conftest import QUICK
from training.sentiment.checkpoints import sealed, step_of
from training.sentiment.run import Sources, run
from training.sentiment.settings import Settings

pytestmark = pytest.mark.slow


STEPS, EVERY = 60, 4
SETTINGS = dataclasses.replace(QUICK, max_steps=STEPS, every=EVERY)
DEADLINE_S = 240


def started(sources: Sources, out: Path) -> subprocess.Popen[bytes]:
    """The command itself, with the settings of SETTINGS, in a process of its own."""
    options = {
        "train": sources.train,
        "validation": sources.validation,
        "test": sources.test,
        "max-steps": STEPS,
        "every": EVERY,
        "batch": SETTINGS.batch,
        "lr": SETTINGS.lr,
        "balance": SETTINGS.balance,
        "max-tokens": SETTINGS.max_tokens,
        "threads": SETTINGS.threads,
        "store": SETTINGS.store,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "training.sentiment", "train", sources.base, str(out), *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def unbroken(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("unbroken") / "out"
    return out, run(sources, SETTINGS, out, Console(quiet=True), resume=False, force=False, keep=False)


def losses(result: dict[str, Any]) -> list[float]:
    """On the validation tweets: one of training logged first after a kill is the mean of fewer steps."""
    return [entry["eval_loss"] for entry in result["training"]["history"] if "eval_loss" in entry]


def require_same(
    out: Path, result: dict[str, Any], unbroken: tuple[Path, dict[str, Any]], tolerance: float = 1e-5
) -> None:
    expected = load_file(unbroken[0] / "model.safetensors")
    for name, tensor in load_file(out / "model.safetensors").items():
        torch.testing.assert_close(tensor, expected[name], atol=tolerance, rtol=tolerance)
    assert losses(result) == pytest.approx(losses(unbroken[1]), abs=1e-4)


def test_a_killed_training_ends_as_if_it_had_not_been(
    sources: Sources, unbroken: tuple[Path, dict[str, Any]], tmp_path: Path, console: Console
) -> None:
    out = tmp_path / "out"
    process = started(sources, out)
    deadline = time.monotonic() + DEADLINE_S
    while not sealed(out / "checkpoints") and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    last = step_of(sealed(out / "checkpoints")[-1])
    assert 0 < last < STEPS
    done = run(sources, SETTINGS, out, console, resume=True, force=False, keep=False)
    assert done["training"]["resumed_at_step"] == last
    assert done["training"]["steps"] == STEPS
    require_same(out, done, unbroken)


def killed_at(
    sources: Sources, out: Path, step: int, monkeypatch: pytest.MonkeyPatch, settings: Settings = SETTINGS
) -> None:
    """Train until a step, and end there as a kill would, without a word to the checkpoints."""
    from training.sentiment.trainer import SentimentTrainer

    class Killed(BaseException):
        pass

    honest: Any = SentimentTrainer.training_step

    def until(trainer: Any, *arguments: Any, **keywords: Any) -> Any:
        if trainer.state.global_step == step:
            raise Killed
        return honest(trainer, *arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(SentimentTrainer, "training_step", until)
        with pytest.raises(Killed):
            run(sources, settings, out, Console(quiet=True), resume=False, force=False, keep=False)


def test_no_more_than_one_interval_is_lost_even_if_the_newest_checkpoint_is_broken(
    sources: Sources,
    unbroken: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    console: Console,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    killed_at(sources, out, 15, monkeypatch)  # in the second epoch, three steps behind a checkpoint
    newest = sealed(out / "checkpoints")[-1]
    assert step_of(newest) == 12
    with (newest / "optimizer.pt").open("r+b") as stream:
        stream.truncate(100)
    done = run(sources, SETTINGS, out, console, resume=True, force=False, keep=False)
    assert done["training"]["resumed_at_step"] == 8
    require_same(out, done, unbroken)


def test_a_kill_before_the_first_checkpoint_starts_again(
    sources: Sources, unbroken: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    killed_at(sources, out, 2, monkeypatch)
    done = run(sources, SETTINGS, out, Console(quiet=True), resume=True, force=False, keep=True)
    assert done["training"]["resumed_at_step"] == 0
    require_same(out, done, unbroken, tolerance=0)


def test_a_kill_after_the_last_step_only_scores(
    sources: Sources, unbroken: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", str(out))

    with monkeypatch.context() as patch:
        patch.setattr("training.sentiment.output.store", full)
        with pytest.raises(OSError, match="No space"):
            run(sources, SETTINGS, out, Console(quiet=True), resume=False, force=False, keep=False)
    assert not (out / "config.json").exists()
    done = run(sources, SETTINGS, out, Console(quiet=True), resume=True, force=False, keep=False)
    assert (done["training"]["resumed_at_step"], done["training"]["steps"]) == (STEPS, STEPS)
    require_same(out, done, unbroken, tolerance=0)


def test_random_batches_are_resumed_too(
    sources: Sources, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dataclasses.replace(SETTINGS, max_steps=16, group_by_length=False)
    whole = run(sources, settings, tmp_path / "whole", console, resume=False, force=False, keep=False)
    killed_at(sources, tmp_path / "out", 11, monkeypatch, settings)
    done = run(sources, settings, tmp_path / "out", console, resume=True, force=False, keep=False)
    assert done["training"]["resumed_at_step"] == 8
    require_same(tmp_path / "out", done, (tmp_path / "whole", whole))
    assert "8 of 16 steps" in (tmp_path / "out" / "MODEL_CARD.md").read_text("utf-8")


def test_a_checkpoint_holds_no_pickle_that_resuming_would_have_to_trust(
    sources: Sources, tmp_path: Path, console: Console
) -> None:
    run(sources, QUICK, tmp_path / "out", console, resume=False, force=False, keep=True)
    files = sealed(tmp_path / "out" / "checkpoints")[-1]
    for file in files.glob("*.pt*"):
        if file.name == "rng_state.pth":  # NumPy's state: read with torch's restricted unpickler and three names more
            continue
        assert torch.load(file, weights_only=True)
    assert not list(files.glob("*.bin"))
