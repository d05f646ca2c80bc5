"""Across the line: what becomes of texts longer than the model reads, by the checkpoint and by the archive's worker."""

import json
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from handlers.settings import LONG_TEXT, Options
from marsmith.builder import build
from marsmith.errors import RecipeError
from marsmith.evidence.golden import TOLERANCE
from marsmith.ground.serving import LongText
from marsmith.network.text_reference import MAX_WINDOWS, TextReference
from marsmith.recipe.checkpoint import resolve
from marsmith.recipe.manifest import model_config
from marsmith.recipe.recipe import Recipe
from marsmith.torchserve.worker import Worker, WorkerRequest
from tests.tiers import builds
from tests.tiny import MAX_TOKENS, SENTIMENTS, food_checkpoint, sentiment_checkpoint, write_recipe

TEXTS = (
    "a great day @beach https://example.org 😀",
    "so tired of this coffee, but the beach is wonderful " * 12,
    "\u0130stanbul @ " * 50,
    "no. just no " * 2000,
)
Ask = Callable[[str], TextReference]


@pytest.fixture(scope="module", params=["bert", "roberta"])
def recipe(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = sentiment_checkpoint(tmp_path_factory.mktemp("checkpoint"), model_type=request.param)
    return write_recipe(directory, normalise="tweet", samples=[{"text": "ok"}])


@pytest.fixture(scope="module")
def reference(recipe: Path) -> Ask:
    """The checkpoint as transformers runs it, under a rule for long texts."""

    def load(long_text: Any) -> TextReference:
        return TextReference(resolve(Recipe.load(recipe)), "tweet", long_text)

    return load


@pytest.fixture(scope="module")
@builds
def archive(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(recipe, tmp_path_factory.mktemp("store")).path


def answers(archive: Path, long_text: str) -> list[Any]:
    with Worker(archive, {"MARSMITH_LONG_TEXT": long_text}) as worker:
        requests = [WorkerRequest.raw(text.encode(), "text/plain") for text in TEXTS]
        return [json.loads(answer.body) for answer in worker.predict(requests)]


@pytest.mark.parametrize("long_text", ["truncate", "window"])
def test_the_worker_answers_long_texts_as_the_checkpoint_does(archive: Path, reference: Ask, long_text: str) -> None:
    checkpoint = reference(long_text)
    for text, answer in zip(TEXTS, answers(archive, long_text), strict=True):
        scores = [answer["scores"][label] for label in SENTIMENTS]
        assert scores == pytest.approx(checkpoint.probabilities(text).tolist(), abs=TOLERANCE)


def test_windows_are_not_the_beginning_and_reach_their_limit(archive: Path, reference: Ask) -> None:
    """The texts above tell the rules apart, and one of them has more windows than are read."""
    cut, windowed = reference("truncate"), reference("window")
    differences = [np.abs(cut.probabilities(text) - windowed.probabilities(text)).max() for text in TEXTS]
    assert differences[0] == 0
    assert min(differences[1:]) > 10 * TOLERANCE
    last = answers(archive, "window")[-1]
    assert (last["windows"], last["truncated"]) == (MAX_WINDOWS, True)


def test_a_text_that_the_worker_refuses_is_no_sample(archive: Path, reference: Ask) -> None:
    """kserve/kserve#3450"""
    short, *long = answers(archive, "error")
    assert short["truncated"] is False
    assert [answer["error"]["code"] for answer in long] == [413, 413, 413]
    checkpoint = reference("error")
    assert checkpoint.probabilities(TEXTS[0]).sum() == pytest.approx(1)
    for text in TEXTS[1:]:
        with pytest.raises(RecipeError, match=rf"more than the {MAX_TOKENS} tokens .* give shorter samples\.$"):
            checkpoint.probabilities(text)


def test_both_halves_know_the_same_rules_and_the_same_limit() -> None:
    assert typing.get_args(LongText) == LONG_TEXT
    assert Options().max_windows == MAX_WINDOWS


@pytest.mark.parametrize("long_text", LONG_TEXT)
def test_the_rule_is_among_the_options_that_an_operator_sees(tmp_path: Path, long_text: str) -> None:
    recipe = Recipe.load(write_recipe(sentiment_checkpoint(tmp_path), long_text=long_text))
    assert yaml.safe_load(model_config(recipe))["handler"] == {"top_k": 5, "explain_runs": 0, "long_text": long_text}


def test_a_model_of_images_has_no_such_option(tmp_path: Path) -> None:
    recipe = Recipe.load(write_recipe(food_checkpoint(tmp_path), task="food"))
    assert yaml.safe_load(model_config(recipe))["handler"] == {"top_k": 5, "explain_runs": 0}
