"""Whatever bodies hypothesis thinks of, BatchHandler answers them and leaves their neighbours alone."""

import json

import pytest
from hypothesis import given, settings
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
ANY_POST = st.one_of(
    st.builds(Post.json, ANY_JSON),
    st.builds(Post, st.binary(max_size=80), ANY_TYPE),
    st.builds(Post, ANY_JSON.map(lambda value: json.dumps(value).encode()), ANY_TYPE),
    st.lists(st.builds(Part, st.text("abody", max_size=4), st.binary(max_size=20), ANY_TYPE), max_size=3).map(
        lambda parts: Post.form(*parts)
    ),
)


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
            assert isinstance(value, list) or set(value) in ({"shout"}, {"predictions"})
