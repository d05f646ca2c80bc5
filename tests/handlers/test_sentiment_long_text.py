"""Texts longer than the model reads: cut, refused, or read in windows, as recipe and operator say."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers import stages
from handlers.sentiment import SentimentHandler
from handlers.text import Tokens
from tests.handlers.transformers_reference import Reference, masked
from tests.handlers.worker import Post, Worker
from tests.tiny import MAX_TOKENS, SENTIMENTS

CONTENT = MAX_TOKENS - 2
LONG = "so tired of this coffee, but the beach is wonderful and the train leaves at nine " * 9
TEXTS = ["ok", LONG, "what a great day at the beach", "thank you @alice, no. " * 30]


def whole(reference: Reference, text: str) -> list[int]:
    """The ids of a text, however long, with special tokens."""
    return list(reference.tokenizer(masked(text) if reference.masks else text)["input_ids"])


def windowed(reference: Reference, text: str, most: int = 32) -> tuple[np.ndarray, int]:
    """Scores and number of windows from the definition: slices of the ids, asked one by one, and their mean."""
    first, *content, last = whole(reference, text)
    slices = [content[begin : begin + CONTENT] for begin in range(0, len(content), CONTENT)][:most] or [[]]
    with torch.inference_mode():
        logits = [reference.model(input_ids=torch.tensor([[first, *ids, last]])).logits[0] for ids in slices]
    weights = np.array([len(ids) or 1 for ids in slices])
    scores = torch.stack(logits).double().softmax(-1).numpy()
    return (weights[:, None] * scores).sum(axis=0) / weights.sum(), len(slices)


def worker_of(reference: Reference, **options: Any) -> Worker:
    return Worker(SentimentHandler(), reference.root, {"handler": {"threads": 1, **options}})


def scores_of(answer: Any) -> list[float]:
    return [answer["scores"][label] for label in SENTIMENTS]


def test_windows_are_averaged_by_their_tokens(reference: Reference) -> None:
    """pytorch/serve#1792, kserve/kserve#3438: short and long texts share a batch."""
    answers = worker_of(reference, long_text="window").predict(*(Post.json(text) for text in TEXTS))
    counts = []
    for text, answer in zip(TEXTS, answers, strict=True):
        scores, windows = windowed(reference, text)
        assert answer.status == 200
        assert scores_of(answer.value) == pytest.approx(scores, abs=1e-4)
        assert answer.value["label"] == SENTIMENTS[int(scores.argmax())]
        assert answer.value["score"] == max(scores_of(answer.value))
        assert (answer.value["windows"], answer.value["truncated"]) == (windows, False)
        assert answer.value["tokens"] == len(whole(reference, text))
        counts.append(windows)
    assert counts[0] == counts[2] == 1
    assert min(counts[1], counts[3]) > 3


def test_windows_say_something_else_than_the_beginning(reference: Reference) -> None:
    """The tolerance above means something."""
    (answer,) = worker_of(reference, long_text="window").predict(Post.json(LONG))
    beginning = list(reference.scores(LONG).values())
    unweighted = np.mean([windowed(reference, LONG, most)[0] for most in (1, 32)], axis=0)
    assert np.abs(np.array(scores_of(answer.value)) - beginning).max() > 1e-3
    assert np.abs(np.array(scores_of(answer.value)) - unweighted).max() > 1e-3


@pytest.mark.parametrize("most", [1, 2, 3])
def test_past_the_last_window_a_text_is_truncated(reference: Reference, most: int) -> None:
    (answer,) = worker_of(reference, long_text="window", max_windows=most).predict(Post.json(LONG))
    scores, windows = windowed(reference, LONG, most)
    assert scores_of(answer.value) == pytest.approx(scores, abs=1e-4)
    assert (answer.value["windows"], answer.value["truncated"]) == (windows, True) == (most, True)
    assert answer.value["tokens"] == most * CONTENT + 2


@pytest.mark.parametrize("budget", [1, 50, 10_000])
def test_the_token_budget_changes_no_windowed_answer(reference: Reference, budget: int) -> None:
    (answer,) = worker_of(reference, long_text="window", token_budget=budget).predict(Post.json(TEXTS))
    for text, element in zip(TEXTS, answer.value, strict=True):
        assert scores_of(element) == pytest.approx(windowed(reference, text)[0], abs=1e-4)


def test_a_long_text_can_be_refused(reference: Reference) -> None:
    """kserve/kserve#3450, pytorch/serve#1225: 413 with the count and the limit, and its neighbours are answered."""
    text = LONG[:500]
    tokens = len(whole(reference, text))
    first, refused, several = worker_of(reference, long_text="error").predict(
        Post.json("ok"), Post(text.encode(), "text/plain"), Post.json(["ok", text * 100])
    )
    assert (refused.status, refused.error["type"]) == (413, "too_large")
    assert refused.error["message"] == f"The text has {tokens} tokens, of which the model reads {MAX_TOKENS}."
    expected = pytest.approx(reference.scores("ok"), abs=1e-4)
    assert first.value["scores"] == several.value[0]["scores"] == expected
    assert several.value[1]["error"]["code"] == 413
    assert "has at least " in several.value[1]["error"]["message"]
    assert "windows" not in first.value


def test_by_default_a_long_text_is_cut_and_counted_as_far_as_it_is_read(reference: Reference) -> None:
    """kserve/kserve#3450"""
    for worker in (reference.worker, worker_of(reference, long_text="truncate")):
        (answer,) = worker.predict(Post.json(LONG))
        assert (answer.value["truncated"], answer.value["tokens"]) == (True, MAX_TOKENS)
        assert "windows" not in answer.value
        assert answer.value["scores"] == pytest.approx(reference.scores(LONG), abs=1e-4)


def test_the_text_section_decides_unless_the_operator_does(
    references: dict[str, Reference], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    shutil.copytree(references["bert"].root, root)
    file = root / "model" / "serving.json"
    serving = json.loads(file.read_text(encoding="utf-8"))
    serving["text"]["long_text"] = "window"
    file.write_text(json.dumps(serving), encoding="utf-8")

    def answer(**options: Any) -> Any:
        (one,) = Worker(SentimentHandler(), root, {"handler": options}).predict(Post.json(LONG))
        return one

    assert answer().value["windows"] > 1
    assert answer(long_text="error").status == 413
    monkeypatch.setenv("MARSMITH_LONG_TEXT", "truncate")
    assert answer(long_text="error").value["truncated"] is True


def test_texts_of_many_windows_are_predicted_in_smaller_parts() -> None:
    """The clock is looked at between parts, so that windows cannot hold the worker past its time."""
    handler = SentimentHandler()
    texts = [Tokens([[1]] * windows, 0, False) for windows in (1, 14, 1, 1, 32, 3, 16, 8, 8, 1)]
    parts = [[len(tokens.windows) for tokens in part] for part in handler._parts(texts)]
    assert parts == [[1, 14, 1], [1], [32], [3], [16], [8, 8], [1]]
    assert stages.PREDICT_INSTANCES == 16


@pytest.fixture(scope="module")
def windowing(references: dict[str, Reference]) -> Worker:
    return worker_of(references["roberta"], long_text="window")


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), min_size=1, max_size=4))
def test_any_texts_are_windowed_by_the_definition(
    references: dict[str, Reference], windowing: Worker, texts: list[str]
) -> None:
    reference = references["roberta"]
    (answer,) = windowing.predict(Post.json(texts))
    for text, element in zip(texts, answer.value, strict=True):
        if "error" in element:
            assert element["error"]["code"] == 422
            continue
        scores, windows = windowed(reference, text)
        assert scores_of(element) == pytest.approx(scores, abs=1e-4)
        assert (element["windows"], element["tokens"]) == (windows, len(whole(reference, text)))
