import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

from training.errors import TrainingError
from training.food import checkpoint
from training.food.checkpoint import Checkpoint, found, load_last, save


def state(step: int) -> Checkpoint:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    weights = model.state_dict()
    return Checkpoint(step, weights, {"weight": weights["weight"] / 2}, optimizer.state_dict(), {"lr": 0.1})


def test_what_is_saved_comes_back_and_replaces_what_was_before(tmp_path: Path) -> None:
    save(tmp_path, state(3))
    last = state(7)
    save(tmp_path, last)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000007"]
    back = load_last(tmp_path)
    assert back is not None
    assert (back.step, back.plan) == (7, {"lr": 0.1})
    assert torch.equal(back.weights["weight"], last.weights["weight"])
    assert back.average is not None
    assert torch.equal(back.average["weight"], last.weights["weight"] / 2)
    assert torch.equal(back.optimizer["state"][0]["exp_avg"], last.optimizer["state"][0]["exp_avg"])


def test_nothing_saved_is_nothing_loaded(tmp_path: Path) -> None:
    assert load_last(tmp_path / "none") is None


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full_in_rust(*_: Any, **__: Any) -> None:
    raise SafetensorError(f"Error while serializing: I/O error: No space left on device (os error {errno.ENOSPC})")


@pytest.mark.parametrize(("function", "fault"), [("save_file", full_in_rust), ("_save_optimizer", full)])
def test_a_full_disk_leaves_the_last_checkpoint_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, fault: Callable[..., None]
) -> None:
    save(tmp_path, state(3))
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, function, fault)
        with pytest.raises(OSError, match="No space left") as raised:
            save(tmp_path, state(7))
    assert raised.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]
    back = load_last(tmp_path)
    assert back is not None
    assert back.step == 3


def test_a_disk_that_is_really_full_is_an_oserror_of_torchs_writer() -> None:
    with pytest.raises(OSError, match="No space left") as raised:
        checkpoint._save_optimizer(state(1).optimizer, Path("/dev/full"))
    assert raised.value.errno == errno.ENOSPC


def test_what_a_kill_left_is_cleared_away_and_never_loaded(tmp_path: Path) -> None:
    save(tmp_path, state(3))
    half = tmp_path / ".step-00000007.new"
    half.mkdir()
    (half / "weights.safetensors").write_bytes(b"half")
    back = load_last(tmp_path)
    assert back is not None
    assert back.step == 3
    save(tmp_path, state(9))
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000009"]


@pytest.mark.parametrize("file", ["weights.safetensors", "optimizer.pt", "state.json"])
def test_a_damaged_checkpoint_is_told(tmp_path: Path, file: str) -> None:
    save(tmp_path, state(3))
    path = found(tmp_path)[0] / file
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(TrainingError, match=r"step-00000003 is damaged .*: remove it and resume"):
        load_last(tmp_path)
