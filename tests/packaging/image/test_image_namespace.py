"""A job goes into a network namespace as JSON, and its progress, answer or error come back so."""

import os
from pathlib import Path

import psutil
import pytest

from marsmith.errors import ImageError
from marsmith.ground.progress import Progress, silent
from marsmith.image import namespace
from marsmith.image.namespace import run_there
from tests.packaging.image import errand
from tests.packaging.image.errand import Errand, Errands

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program does not look for modules in the directory that it is started in."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def answer(unshare: str, end: str, progress: Progress = silent) -> Errand:
    job = Errands(files=[Path("a/b.mar"), Path("c.mar")], end=end)
    return run_there(unshare, errand.__name__, job, Errand, progress)


def test_the_answer_comes_back_as_what_it_was(unshare: str) -> None:
    steps: list[str] = []
    assert answer(unshare, "answer", steps.append) == Errand(("b.mar", "c.mar"), ["lo"])
    assert steps == ["looking at 2 files"]


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("refuse", r"^The errand is refused\.$"),
        ("network", r"^The container's network cannot be set up \(Operation not permitted\): use another --tool"),
        ("die", r"^The container could not be run: see above for what it said\.$"),
    ],
)
def test_a_job_without_an_answer_says_why(unshare: str, end: str, said: str) -> None:
    with pytest.raises(ImageError, match=said):
        answer(unshare, end)


def test_an_interrupt_ends_the_program(unshare: str) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_there(unshare, errand.__name__, Errands(files=[]), Errand, interrupt)
    left = psutil.Process().children(recursive=True)
    assert not [one for one in left if errand.__name__ in one.cmdline()]


def test_only_root_may_make_a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert namespace.unshare() is None
