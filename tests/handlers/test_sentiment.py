"""The sentiment handler, from the wire to the wire, against transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.sentiment import SentimentHandler
from tests.handlers.transformers_reference import Reference
from tests.handlers.worker import Part, Post, Worker
from tests.tiny import MAX_TOKENS, SENTIMENTS

# 3 tokens and 300 words, several scripts, in one batch.
TEXTS = [
    "ok",
    "what a great day at the beach with my friends, thank you so much!",
    "no",
    "so tired of this coffee " * 60,
    "😀 我喜欢这个 @alice https://t.co/x",
    "I LOVE this! It's wonderful, isn't it? #fail",
    "a",
    "the train leaves at nine o'clock tomorrow from platform two " * 2,
]


def test_a_batch_of_any_lengths_is_answered_as_each_text_alone(reference: Reference) -> None:
    """pytorch/serve#1792, kserve/kserve#3438, pytorch/serve#2121"""
    answers = reference.worker.predict(*(Post.json({"text": text}) for text in TEXTS))
    for text, answer in zip(TEXTS, answers, strict=True):
        scores = reference.scores(text)
        assert answer.status == 200
        assert list(answer.value["scores"]) == list(SENTIMENTS)
        assert answer.value["scores"] == pytest.approx(scores, abs=1e-4)
        assert answer.value["label"] == max(scores, key=scores.__getitem__)
        assert answer.value["score"] == answer.value["scores"][answer.value["label"]]
        assert answer.value["tokens"] == len(reference.ids(text))


def test_the_texts_are_told_apart(reference: Reference) -> None:
    """The tolerance above means something: no two texts' scores are within ten times of it."""
    scores = [np.array(list(reference.scores(text).values())) for text in TEXTS]
    for place, one in enumerate(scores):
        assert all(abs(one - other).max() > 1e-3 for other in scores[place + 1 :])


def test_the_logits_are_those_of_transformers(reference: Reference) -> None:
    for text in TEXTS:
        tokens = reference.handler.encoder.encode(text)
        assert tokens.windows == [reference.ids(text)]
        ((same, scores),) = reference.handler.predict([tokens])
        assert same is tokens
        logits = reference.logits(text)
        assert np.log(scores) - np.log(scores[0]) == pytest.approx(logits - logits[0], abs=1e-4)


@pytest.mark.parametrize("budget", [1, 20, 100, 10_000])
def test_the_token_budget_changes_no_answer(reference: Reference, budget: int) -> None:
    worker = Worker(SentimentHandler(), reference.root, {"handler": {"token_budget": budget, "threads": 1}})
    (answer,) = worker.predict(Post.json(TEXTS))
    assert [element["scores"] for element in answer.value] == [
        pytest.approx(reference.scores(text), abs=1e-4) for text in TEXTS
    ]


def test_truncation_is_flagged(reference: Reference) -> None:
    """kserve/kserve#3450"""
    short, long = reference.worker.predict(Post(b"ok", "text/plain"), Post(b"great day " * 5000, "text/plain"))
    assert (short.value["truncated"], short.value["tokens"]) == (False, len(reference.ids("ok")))
    assert (long.value["truncated"], long.value["tokens"]) == (True, MAX_TOKENS)
    assert long.value["scores"] == pytest.approx(reference.scores("great day " * 50), abs=1e-4)


def test_tweets_are_masked_where_the_recipe_says_so(references: dict[str, Reference]) -> None:
    tweet, plain = "@alice see https://t.co/x", "@user see http"
    masking, literal = (
        [answer.value["score"] for answer in references[name].worker.predict(Post.json(tweet), Post.json(plain))]
        for name in ("roberta", "bert")
    )
    assert masking[0] == pytest.approx(masking[1], abs=1e-5)
    assert abs(literal[0] - literal[1]) > 1e-3


def test_every_way_to_send_a_text_gets_the_same_answer(reference: Reference) -> None:
    """pytorch/serve#1004, pytorch/serve#1267, pytorch/serve#1839, aws/sagemaker-python-sdk#4869, pytorch/serve#1922"""
    text = "thank you, \u00e9 so much"
    data = text.encode()
    posts = [
        Post(data, "text/plain"),
        Post(data),
        Post(data, "application/octet-stream"),
        Post(text.encode("latin-1"), "text/plain; charset=latin-1"),
        Post.json(text),
        *(Post.json({key: text}) for key in ("text", "data", "inputs")),
        Post(b'{"text": "thank you, \\u00e9 so much"}', "application/json; charset=utf-8"),
        Post.form(Part("data", data)),
        Post.form(Part("anything", data, "application/octet-stream")),
    ]
    expected = pytest.approx(reference.scores(text), abs=1e-4)
    for answer in reference.worker.predict(*posts):
        assert answer.status == 200
        assert answer.value["scores"] == expected


def test_bad_texts_fail_alone(reference: Reference) -> None:
    """pytorch/serve#1230, pytorch/serve#1225"""
    answers = reference.worker.predict(
        Post.json("ok"),
        Post(b"\xff\xd8\xff\xe0", "image/jpeg"),
        Post.json(["ok", 3]),
        Post(b"", "text/plain"),
        Post(b"\xff\xfe\x00", "text/plain"),
        Post.json("ok"),
    )
    assert [answer.status for answer in answers] == [200, 415, 200, 422, 400, 200]
    expected = pytest.approx(reference.scores("ok"), abs=1e-4)
    first, _, both, *_, last = (answer.value for answer in answers)
    assert [answer["scores"] for answer in (first, both[0], last)] == [expected] * 3
    assert both[1]["error"]["code"] == 422


ANY_BODY = st.one_of(
    st.builds(Post.json, st.one_of(st.none(), st.text(), st.lists(st.text(), max_size=4), st.integers())),
    st.builds(Post, st.binary(max_size=60), st.sampled_from(["", "text/plain", "application/json", "image/png"])),
)


@settings(max_examples=60, deadline=None)
@given(post=ANY_BODY)
def test_any_body_leaves_its_neighbours_answers_as_they_are(references: dict[str, Reference], post: Post) -> None:
    """pytorch/serve#1230"""
    reference = references["roberta"]
    first, answer, last = reference.worker.predict(Post.json(TEXTS[1]), post, Post.json("ok"))
    assert answer.status in {200, 400, 415, 422}
    assert answer.value is not None
    assert first.value["scores"] == pytest.approx(reference.scores(TEXTS[1]), abs=1e-4)
    assert last.value["scores"] == pytest.approx(reference.scores("ok"), abs=1e-4)


def test_a_network_that_gives_nan_is_a_fault_in_valid_json(
    references: dict[str, Reference], monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytorch/serve#1304"""
    reference = references["bert"]

    def run(feeds: Any) -> np.ndarray:
        return np.full((len(feeds["starts"]), 3), np.nan, np.float32)

    monkeypatch.setattr(reference.handler.engine, "run", run)
    (answer,) = reference.worker.predict(Post.json("ok"))
    assert (answer.status, answer.error["type"]) == (500, "internal")


def test_an_image_archive_is_refused_at_load(image_root: Path) -> None:
    with pytest.raises(RuntimeError, match=r"^Model failed to load: serving\.json has no text section"):
        Worker(SentimentHandler(), image_root)
