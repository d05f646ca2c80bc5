"""Explanations that a recipe asks for: whether its handler gives any is seen before it is built."""

from pathlib import Path

import pytest

from marsmith.lint import lint_recipe
from tests.packaging.lint.test_lint_own_handler import HANDLER, custom, refusal
from tests.packaging.lint.trees import codes, only

pytestmark = pytest.mark.slow


BASE = "from handlers.base import BatchHandler"
METHOD = "    def explain(self, instance):\n        return {}\n"


def with_base(statement: str, base: str) -> str:
    """The handler with another base class."""
    return HANDLER.replace(BASE, statement).replace("(BatchHandler)", f"({base})")


def found(directory: Path, code: str, **files: str) -> list[str]:
    for name, text in files.items():
        (directory / f"{name}.py").write_text(text)
    recipe = custom(directory, code, explain=True, extra_files=[f"{name}.py" for name in files])
    return [code for code in codes(lint_recipe(recipe)) if code == "M610"]


def test_explanations_that_would_all_be_refused_are_an_error(tmp_path: Path) -> None:
    recipe = custom(tmp_path, explain=True)
    finding = only(lint_recipe(recipe), "M610")
    assert (finding.where, "Length has no method explain" in finding.message) == ("length.py:6", True)
    assert "M610 length.py:6" in refusal(recipe, tmp_path / "out")
    assert lint_recipe(custom(tmp_path)) == []


@pytest.mark.parametrize(
    ("statement", "base"),
    [
        (BASE, "BatchHandler[str, int]"),
        (f"{BASE} as Base", "Base"),
        ("import handlers.base", "handlers.base.BatchHandler"),
        ("import handlers.base as base", "base.BatchHandler"),
        ("from handlers import base", "base.BatchHandler"),
        ("from handlers.sentiment import BatchHandler", "BatchHandler"),  # handed on
        ("from model.mixed import Mixed", "Mixed"),
    ],
)
def test_a_base_is_found_however_it_is_named(tmp_path: Path, statement: str, base: str) -> None:
    mixed = f"{BASE}\n\nclass Plain: ...\n\nclass Mixed(Plain, BatchHandler): ...\n"
    assert found(tmp_path, with_base(statement, base), mixed=mixed) == ["M610"]


@pytest.mark.parametrize("handler", ["sentiment.SentimentHandler", "food.FoodHandler"])
def test_the_handlers_of_marsmith_explain(tmp_path: Path, handler: str) -> None:
    module, name = handler.split(".")
    assert found(tmp_path, with_base(f"from handlers.{module} import {name}", name)) == []


@pytest.mark.parametrize(
    "code",
    [
        HANDLER + METHOD,
        HANDLER + "    explain = print\n",
        HANDLER + "    def handle(self, data, context):\n        return data\n",
        HANDLER + "    def __getattr__(self, name):\n        return print\n",
        HANDLER.replace("class Length", "@print\nclass Length"),
        HANDLER + "\n\ndef handle(data, context):\n    return data\n",
        with_base("from model.mixed import Mixed", "Mixed"),
        with_base("from numpy import ndarray", "ndarray"),
        with_base("from os import *", "Somebody"),
        with_base(f"{BASE}\nfrom torch import Tensor", "BatchHandler, Tensor"),
        with_base(BASE, "type('Made', (BatchHandler,), {})"),
        with_base("from model.mixed import Round", "Round"),
        with_base("from model.mixed import Lost", "Lost"),
    ],
)
def test_what_explains_or_may_is_left_alone(tmp_path: Path, code: str) -> None:
    mixed = (
        f"{BASE}\nfrom model.mixed import Lost\n\n\nclass Mixed(BatchHandler):\n{METHOD}\n\nclass Round(Round): ...\n"
    )
    assert found(tmp_path, code, mixed=mixed) == []
