import errno
import sys

import pytest
import typer

from training.command import run
from training.errors import TrainingError


def outcome(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> SystemExit:
    """What the command ends with when its work raises `error`."""
    app = typer.Typer()

    @app.command()
    def work() -> None:
        raise error

    monkeypatch.setattr(sys, "argv", ["work"])
    with pytest.raises(SystemExit) as ended:
        run(app)
    return ended.value


def test_a_mistake_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(TrainingError("The folder is empty: name another."), monkeypatch).code == (
        "Error: The folder is empty: name another."
    )


def test_a_full_disk_names_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "out/model.safetensors")
    assert "out/model.safetensors" in str(outcome(full, monkeypatch).code)


def test_what_nobody_foresaw_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["work"])
    app = typer.Typer()

    @app.command()
    def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(app)
