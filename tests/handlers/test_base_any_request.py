"""Whatever bodies hypothesis thinks of, BatchHandler answers them and leaves their neighbours alone."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.handlers.shouter import Shouter, between, make_root
from tests.handlers.worker import Part, Post, Worker

JSON = "application/json"


@pytest.fixture(scope="module")
def shared_worker(tmp_path_factory: pytest.TempPathFactory) -> Worker:
    return Worker(Shouter(), make_root(tmp_path_factory.mktemp("shouter"), max_instances=3, max_text_bytes=50))


ANY_TEXT = st.one_of(
    st.text(), st.sampled_from(["good", "bad-decode", "bad-predict", "bad-encode", "nan", "refuse", "\ud800", "set"])
)
ANY_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), ANY_TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(st.one_of(st.sampled_from(["text", "data", "inputs", "b64", "instances"]), st.text()), inner),
    ),
    max_leaves=12,
)
ANY_TYPE = st.one_of(
    st.sampled_from(
        ["", JSON, "Application/JSON", "text/plain", "text/plain; charset=utf-16", "image/png", "a/b+json"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
ANY_HEADER = st.sampled_from(["Content-Type", "content-type", "CONTENT-TYPE", "X-Other"])
ANY_PART = st.one_of(st.binary(max_size=20), ANY_JSON.map(lambda value: json.dumps(value).encode()))
ANY_TENSOR = st.fixed_dictionaries(
    {"datatype": st.one_of(st.just("BYTES"), ANY_JSON), "data": ANY_JSON},
    optional={"name": ANY_JSON, "shape": st.one_of(st.lists(st.integers(-1, 4), max_size=3), ANY_JSON)},
)
ANY_POST = st.one_of(
    st.builds(Post.json, ANY_JSON),
    st.builds(Post, st.binary(max_size=80), ANY_TYPE),
    st.builds(Post, ANY_JSON.map(lambda value: json.dumps(value).encode()), ANY_TYPE, header=ANY_HEADER),
    st.lists(st.builds(Part, st.text("abody", max_size=4), ANY_PART, ANY_TYPE), max_size=3).map(
        lambda parts: Post.form(*parts)
    ),
    st.fixed_dictionaries({"inputs": st.lists(ANY_TENSOR, max_size=3)}, optional={"id": ANY_JSON, "x": ANY_JSON}).map(
        Post.json
    ),
)
V2_KEYS = {"model_name", "model_version", "id", "outputs"}


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(posts=st.lists(ANY_POST, min_size=1, max_size=4))
def test_any_requests_are_answered_and_leave_their_neighbours_alone(shared_worker: Worker, posts: list[Post]) -> None:
    """pytorch/serve#1230; also the wire: TorchServe decodes the whole frame."""
    for answer in between(shared_worker, *posts):
        value = answer.value
        assert answer.status in {200, 400, 413, 415, 422, 500}
        assert answer.content_type == "application/json; charset=utf-8"
        if answer.status != 200:
            assert set(answer.error) == {"code", "type", "message", "request_id"}
        else:
            assert isinstance(value, list) or set(value) in ({"shout"}, {"predictions"}, V2_KEYS)


READABLE = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
    .map("say {}".format)
    .filter(lambda text: "refuse" not in text and "bad-" not in text)
)
# How one text may be sent.
ONE: dict[str, Callable[[str], Post]] = {
    "text": lambda text: Post(text.encode(), "text/plain"),
    "text of a charset": lambda text: Post(text.encode("utf-16"), "text/plain; charset=utf-16"),
    "bytes": lambda text: Post(text.encode()),
    "JSON": Post.json,
    "JSON of another type": lambda text: Post(json.dumps(text).encode(), "application/a+json", header="content-type"),
    **{f"{{{key}}}": partial(lambda key, text: Post.json({key: text}), key) for key in ("text", "data", "inputs")},
    "form": lambda text: Post.form(Part("data", text.encode())),
    "form of JSON": lambda text: Post.form(Part("x", json.dumps({"text": text}).encode(), JSON)),
}
# How several may be, and where their answers are.
MANY: dict[str, tuple[Callable[[list[str]], Post], Callable[[Any], Any]]] = {
    "list": (Post.json, lambda value: value),
    "list of objects": (lambda texts: Post.json([{"data": text} for text in texts]), lambda value: value),
    "inputs": (lambda texts: Post.json({"inputs": texts}), lambda value: value),
    "KServe v1": (lambda texts: Post.json({"instances": texts}), lambda value: value["predictions"]),
    "KServe v2": (
        lambda texts: Post.json({"inputs": [{"name": "x", "shape": [len(texts)], "datatype": "BYTES", "data": texts}]}),
        lambda value: [json.loads(element) for element in value["outputs"][0]["data"]],
    ),
    "form": (
        lambda texts: Post.form(*(Part(f"x{place}", text.encode()) for place, text in enumerate([*texts, "say more"]))),
        lambda value: value[:-1],
    ),
}
ANY_ONE = st.tuples(st.sampled_from(sorted(ONE)), READABLE)
ANY_MANY = st.tuples(st.sampled_from(sorted(MANY)), st.lists(READABLE, min_size=1, max_size=2))


@pytest.mark.parametrize("decode", ["true", "false"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ones=st.lists(ANY_ONE, max_size=3), many=st.lists(ANY_MANY, max_size=3))
def test_texts_have_the_same_answers_in_whatever_shape_they_come(
    shared_worker: Worker,
    monkeypatch: pytest.MonkeyPatch,
    decode: str,
    ones: list[tuple[str, str]],
    many: list[tuple[str, list[str]]],
) -> None:
    """pytorch/serve#1004, pytorch/serve#1267, pytorch/serve#1839, pytorch/serve#2155, pytorch/serve#2068"""
    monkeypatch.setenv("TS_DECODE_INPUT_REQUEST", decode)
    posts = [ONE[shape](text) for shape, text in ones] + [MANY[shape][0](texts) for shape, texts in many]
    answers = between(shared_worker, *posts)
    assert [answer.status for answer in answers] == [200] * len(posts)
    for (_, text), answer in zip(ones, answers, strict=False):
        assert answer.value == {"shout": text.upper()}
    for (shape, texts), answer in zip(many, answers[len(ones) :], strict=True):
        assert MANY[shape][1](answer.value) == [{"shout": text.upper()} for text in texts]
