"""The README's handlers of a user's own are built, loaded and asked here, as they are written there."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from marsmith.builder import build
from marsmith.lint import lint_recipe
from marsmith.torchserve.worker import Worker, WorkerRequest
from tests.tiny import sentiment_checkpoint

pytestmark = pytest.mark.build


README = Path(__file__).parents[2] / "README.md"
TEXTS = ("What a great day at the beach!", "no, just no. the coffee is cold " * 10, "ok")


def section(title: str) -> str:
    """The README under one heading."""
    return README.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]


def blocks(language: str) -> list[str]:
    """What the section on handlers fences as one language."""
    return re.findall(rf"```{language}\n(.*?)```", section("Your own handler"), re.DOTALL)


def example(name: str, directory: Path) -> Path:
    """Write the handler and the recipe of that name into `directory`, which is returned."""
    (recipe,) = (block for block in blocks("toml") if f'name = "{name}"' in block)
    (code,) = (block for block in blocks("python") if f"class {name[:-1].title()}" in block)
    (directory / "recipe.toml").write_text(recipe, encoding="utf-8")
    (directory / f"{name}.py").write_text(code, encoding="utf-8")
    return directory


def as_json(value: object) -> WorkerRequest:
    return WorkerRequest.raw(json.dumps(value).encode(), "application/json")


def masked(value: Any) -> Any:
    """An answer without the id of its request."""
    return json.loads(re.sub(r'"request_id": "[^"]*"', '"request_id": "…"', json.dumps(value)))


def test_the_rule_in_the_readme_is_built_and_answers_what_the_readme_says(tmp_path: Path) -> None:
    keywords, answer = blocks("json")
    (tmp_path / "keywords.json").write_text(keywords, encoding="utf-8")
    recipe = example("topics", tmp_path)
    assert lint_recipe(recipe) == []
    built = build(recipe, tmp_path / "store")
    assert (built.golden, built.parity, built.warnings) == (1, None, [])
    (question,) = re.findall(r"-d '(.*?)'", section("Your own handler"))
    with Worker(built.path) as worker:
        asked, blank, form = worker.predict(
            [as_json(json.loads(question)), as_json(" "), WorkerRequest([("text", "text/plain", b"An invoice? Late!")])]
        )
    assert (asked.status, masked(json.loads(asked.body))) == (200, json.loads(answer))
    assert blank.status == 422
    assert json.loads(form.body)["hits"] == {"delivery": 1, "payment": 1}


@pytest.fixture(scope="module")
def regression(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The README's recipe for a random RoBERTa with one logit."""
    directory = tmp_path_factory.mktemp("regression")
    sentiment_checkpoint(directory / "checkpoint", "roberta", labels=("LABEL_0",), problem_type="regression")
    return example("stars", directory)


def test_the_regression_head_in_the_readme_answers_the_logit_of_transformers(regression: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(regression / "checkpoint", trust_remote_code=False)
    model = AutoModelForSequenceClassification.from_pretrained(
        regression / "checkpoint", trust_remote_code=False
    ).eval()
    with torch.inference_mode():
        expected = [model(**tokenizer(text, truncation=True, return_tensors="pt")).logits.item() for text in TEXTS]
    assert max(expected) - min(expected) > 0.01  # else any rating would do
    built = build(regression, tmp_path)
    with Worker(built.path) as worker:
        answers = worker.predict([as_json({"text": text}) for text in TEXTS])
    assert [list(json.loads(one.body)) for one in answers] == [["rating"]] * len(TEXTS)
    assert [json.loads(one.body)["rating"] for one in answers] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["topics", "stars"])
def test_the_examples_are_short(name: str, tmp_path: Path) -> None:
    code = (example(name, tmp_path) / f"{name}.py").read_text(encoding="utf-8")
    lines = [line for line in code.splitlines() if line.strip() and "import" not in line]
    assert len(lines) <= 12
