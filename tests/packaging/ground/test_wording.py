"""Every wrong value of every key that a user writes is told in one sentence, without a word of pydantic's."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from pydantic import BaseModel

from marsmith.deploy.settings import TABLE, Deployment, Endpoint, load
from marsmith.errors import DeployError, MarsmithError
from marsmith.recipe.recipe import SECTIONS, Recipe
from tests.packaging.deploy.cloud import BUCKET, IMAGE, NAME, ROLE

DEEP: Any = []
for _ in range(50):
    DEEP = [DEEP]
WRONG: dict[str, Any] = {
    "true": True,
    "zero": 0,
    "negative": -1,
    "huge": 2**70,
    "digits without end": 10**4000,
    "half": 0.5,
    "nan": float("nan"),
    "inf": float("inf"),
    "empty": "",
    "blank": " ",
    "a word": "x y",
    "long": "x" * 5000,
    "digits in a text": "9" * 5000,
    "brackets in a text": "(" * 5000,
    "a control character": "a\x1b[31m\n\u202eb",
    "NUL": "\0",
    "a path up": "../x",
    "not ASCII": "\u00fc\u0661",
    "an empty list": [],
    "a list": ["x", 1],
    "a list of tables": [{"x": 1}],
    "a deep list": DEEP,
    "an empty table": {},
    "a table": {"x": 1, "y": {"z": []}},
    "a table with odd keys": {"": "", "\x1b]0;": "x", "a b": "c"},
}
# What a phrase for people has none of.
JARGON = re.compile(
    r"pydantic|validation|Input should|type=|ctx|\[key\]|Traceback|Error|Exception|NoneType|\bdict\b|\bstr\b|\bint\b|"
    r"function-|digits\) for integer|union|recursion|instance of",
)
RECIPE: dict[str, Any] = {
    "name": "n",
    "task": "sentiment",
    "checkpoint": ".",
    "serving": {},
    "accuracy": {"inputs": "x.txt"},
    "samples": [{"text": "x"}],
}
DEPLOYMENT = {"name": NAME, "bucket": BUCKET, "role": ROLE, "image": IMAGE, "tarballs": ["a.tar.gz"]}


def keys(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if not field.exclude:
            yield field.alias or name


def of_recipe(section: str, key: str, value: Any) -> dict[str, Any]:
    """A recipe that is right but for one key."""
    if not section:
        return {**RECIPE, key: value}
    table = {**(RECIPE["samples"][0] if section == "samples" else RECIPE[section]), key: value}
    return {**RECIPE, section: [table] if section == "samples" else table}


def told(read: Callable[[], object]) -> str:
    """The sentence, which is one line that may be printed, or nothing where the value is right."""
    try:
        read()
    except MarsmithError as error:
        said = str(error)
    else:
        return ""
    assert said.isprintable()
    assert said.endswith(".")
    assert not JARGON.search(re.sub(r"'[^']*'", "", said)), said
    return said


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_of_any_key_of_a_recipe_is_one_sentence(name: str) -> None:
    file = Path("/r/recipe.toml")
    every = [of_recipe(section, key, WRONG[name]) for section, model in SECTIONS.items() for key in keys(model)]
    wrong = [said for one in every if (said := told(lambda one=one: Recipe.parse(tomlkit.dumps(one).encode(), file)))]  # type: ignore[misc]
    assert len(wrong) >= 20
    assert all(said.startswith("The recipe /r/recipe.toml ") for said in wrong)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("kind", [Deployment, Endpoint])
def test_a_wrong_value_of_any_key_of_a_deployment_is_one_sentence(
    name: str, kind: type[Deployment] | type[Endpoint], tmp_path: Path
) -> None:
    file, wrong = tmp_path / "deploy.toml", {}
    for key in keys(kind):
        file.write_text(tomlkit.dumps({TABLE: {**DEPLOYMENT, key: WRONG[name]}}))
        if said := told(lambda: load(kind, file, {})):
            wrong[key] = said
    assert len(wrong) >= 2
    assert all(key in said or key == "pytorch" for key, said in wrong.items())


@pytest.mark.parametrize("value", [None, 5, "\udcff", object(), b"x"], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("kind", [Deployment, Endpoint])
def test_a_wrong_option_of_a_deployment_is_one_sentence(value: Any, kind: type[Deployment] | type[Endpoint]) -> None:
    """The command line hands over bytes that are not UTF-8 as half a surrogate pair each."""
    options = {**DEPLOYMENT, "tarballs": [Path("a.tar.gz")]}
    every = [{**options, key: given} for key in keys(kind) for given in (value, [value], {"A": value})]
    said = [told(lambda one=one: load(kind, None, one)) for one in every]  # type: ignore[misc]
    assert any(said)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tarballs": []}, "tarballs must have 1 or more elements"),
        ({"environment": "x"}, "environment must be a table"),
        ({"environment": {"A": 1}}, "environment.A must be text in quotes"),
        ({"tags": []}, "tags must be a table"),
        ({"image_account": "1234"}, "image_account: '1234' is no AWS account: write its 12 digits in quotes"),
        ({"image_account": 1234}, "image_account must be text in quotes"),
    ],
)
def test_a_wrong_value_of_a_deployment_is_told_with_what_is_right(
    changed: dict[str, Any], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(tomlkit.dumps({TABLE: {**DEPLOYMENT, **changed}}))
    with pytest.raises(DeployError, match=re.escape(said)):
        load(Deployment, file, {})
