"""KServe's v2 protocol (Open Inference Protocol) through TorchServe's real worker, as REST and as gRPC bring it."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers import responses
from handlers.kserve import MAX_ID_CHARACTERS, elements
from tests.handlers.shouter import Shouter, between, make_root, text
from tests.handlers.worker import Answer, Part, Post, Worker

JSON = "application/json"


def tensor(data: Any, shape: Any = None, datatype: str = "BYTES", name: str = "text") -> dict[str, Any]:
    return {"name": name, "shape": [len(data)] if shape is None else shape, "datatype": datatype, "data": data}


def v2(*tensors: Any, **keys: Any) -> Post:
    return Post.json({**keys, "inputs": list(tensors)})


def grpc(*tensors: Any, **keys: Any) -> Post:
    """What TorchServe's OpenInferenceProtocolImpl makes of a ModelInfer call: a body with a type, and no headers."""
    body = {"id": "", "model_name": "shouter", **keys, "inputs": list(tensors)}
    return Post(parts=(Part("body", json.dumps(body).encode(), JSON),))


def base64_of(*texts: str) -> list[str]:
    return [base64.b64encode(text.encode()).decode() for text in texts]


def results(answer: Answer) -> list[Any]:
    """The instances' answers, after a look at the envelope around them."""
    value = answer.value
    assert set(value) == {"model_name", "model_version", "id", "outputs"}
    assert (value["model_name"], value["model_version"]) == ("shouter", "1.0")
    (output,) = value["outputs"]
    data = output.pop("data")
    assert output == {"name": "predictions", "shape": [len(data)], "datatype": "BYTES"}
    return [json.loads(element) for element in data]


def shouts(*texts: str) -> list[dict[str, str]]:
    return [{"shout": text.upper()} for text in texts]


def test_each_element_is_an_instance_and_the_answer_is_a_tensor_of_json_strings(worker: Worker) -> None:
    """pytorch/serve#2158, pytorch/serve#1302, pytorch/serve#911: TorchServe's own envelope keeps the first alone."""
    (answer,) = between(worker, v2(tensor(["a", "naïve"]), id="42"))
    assert (answer.status, answer.value["id"]) == (200, "42")
    assert results(answer) == shouts("a", "naïve")


def test_several_requests_of_a_batch_and_their_neighbours_are_all_answered(worker: Worker, handler: Shouter) -> None:
    """pytorch/serve#2158, pytorch/serve#1302, pytorch/serve#911, pytorch/serve#2121"""
    posts = [v2(tensor(["a", "b"]), id="one"), v2(tensor(["c"]), id="two"), Post.json({"instances": ["d"]})]
    first, second, third = between(worker, *posts)
    assert (first.value["id"], results(first)) == ("one", shouts("a", "b"))
    assert (second.value["id"], results(second)) == ("two", shouts("c"))
    assert third.value == {"predictions": shouts("d")}
    assert handler.batches == [["good", "a", "b", "c", "d", "neighbour"]]


def test_all_tensors_are_read_in_order(worker: Worker) -> None:
    (answer,) = between(worker, v2(tensor(["a"], name="first"), tensor(["b", "c"], name="second")))
    assert results(answer) == shouts("a", "b", "c")


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        (["a", "b", "c", "d"], [4]),
        (["a", "b", "c", "d"], [2, 2]),
        ([["a", "b"], ["c", "d"]], [2, 2]),
        ([[["a"], ["b"]], [["c"], ["d"]]], [2, 2, 1]),
        (["a", "b", "c", "d"], [1, 4, 1]),
    ],
)
def test_data_may_be_flat_or_nested(worker: Worker, data: Any, shape: list[int]) -> None:
    (answer,) = between(worker, v2(tensor(data, shape)))
    assert results(answer) == shouts("a", "b", "c", "d")


@pytest.mark.parametrize("shape", [-1, [-1], [-1, 1], [1, -1], [-1, -1], [2], 2, [], None, "left out"])
@pytest.mark.parametrize("data", [["a", "b"], [["a"], ["b"]]])
def test_sizes_may_be_left_open_as_torchserves_own_examples_do(worker: Worker, data: Any, shape: Any) -> None:
    sent = tensor(data, shape)
    sent["shape"] = shape
    if shape == "left out":
        del sent["shape"]
    (answer,) = between(worker, v2(sent))
    if shape == []:
        assert answer.status == 422  # a scalar is one element
    else:
        assert results(answer) == shouts("a", "b")


@pytest.mark.parametrize("shape", [1, -1, [1], [-1], [], [1, 1], None])
def test_a_lone_string_is_a_tensor_of_one_element(worker: Worker, shape: Any) -> None:
    (answer,) = between(worker, v2({"name": "text", "shape": shape, "datatype": "BYTES", "data": "hello"}))
    assert results(answer) == shouts("hello")


def test_elements_are_counted_no_further_than_the_limit_whatever_is_nested(worker: Worker) -> None:
    many: list[Any] = [[] for _ in range(10_000)]
    for data in (["a"] * 100_000, [["a"] * 100_000], [many, many], many):
        (answer,) = between(worker, v2(tensor(data, [-1])))
        assert (answer.status, answer.error["type"]) == (413, "too_large")


@given(st.recursive(st.text(), lambda inner: st.lists(inner, max_size=4), max_leaves=30))
def test_nested_data_is_flattened_row_by_row(data: Any) -> None:
    def leaves(value: Any) -> list[str]:
        return [leaf for inner in value for leaf in leaves(inner)] if isinstance(value, list) else [value]

    expected = leaves([data])
    assert elements({"inputs": [tensor([data], [len(expected)])]}, grpc=False, most=1000) == expected


def test_a_scalar_has_no_sizes(worker: Worker) -> None:
    (answer,) = between(worker, v2(tensor(["a"], [])))
    assert results(answer) == shouts("a")


@pytest.mark.parametrize("keys", [{}, {"id": ""}, {"id": None}])
def test_without_an_id_the_answer_has_the_one_of_the_log(worker: Worker, keys: dict[str, Any]) -> None:
    (answer,) = between(worker, v2(tensor(["a"]), **keys))
    assert answer.value["id"] == answer.request_id


@pytest.mark.parametrize("outputs", [None, [], [{"name": "predictions"}], [{"name": "predictions", "parameters": {}}]])
def test_our_output_may_be_asked_for_by_name(worker: Worker, outputs: Any) -> None:
    (answer,) = between(worker, v2(tensor(["a"]), outputs=outputs, parameters={"x": 1}))
    assert results(answer) == shouts("a")


@pytest.mark.parametrize(
    ("bad", "code"),
    [("", 422), (3, 422), (None, 422), ("refuse", 415), ("half \ud800", 400), ("bad-predict", 500), ("nan", 500)],
)
def test_a_bad_element_is_reported_in_its_place(worker: Worker, bad: Any, code: int) -> None:
    (answer,) = between(worker, v2(tensor(["a", bad, "c"]), id="42"))
    assert (answer.status, answer.value["id"]) == (200, "42")
    first, error, last = results(answer)
    assert [first, last] == shouts("a", "c")
    assert (error["error"]["code"], error["error"]["request_id"]) == (code, answer.request_id)


WRONG: list[tuple[Sequence[Any], dict[str, Any], str]] = [
    ([tensor([1.0], datatype="FP32")], {}, "datatype BYTES"),
    ([tensor(["a"]), tensor([1], datatype="INT64")], {}, "datatype BYTES"),
    ([{"shape": [1], "data": ["a"]}], {}, "datatype BYTES"),
    ([tensor(["a"]), "b"], {}, "datatype BYTES"),
    ([tensor(["a", "b"], [3])], {}, "does not fit its data of 2 elements"),
    ([tensor([["a"], ["b", "c"]], [2, 2])], {}, "does not fit its data of 3 elements"),
    ([tensor([], [1])], {}, "does not fit its data of 0 elements"),
    ([tensor(["a"], "1")], {}, "whole numbers"),
    ([tensor(["a"], [1.0])], {}, "whole numbers"),
    ([tensor(["a"], [True])], {}, "whole numbers"),
    ([tensor(["a"], [-2])], {}, "whole numbers"),
    ([tensor(["a"], -2)], {}, "whole numbers"),
    ([tensor(["a"], True)], {}, "whole numbers"),
    ([tensor(["a"], [-1] * 9)], {}, "at most 8 whole numbers"),
    ([tensor(["a", "b", "c"], [-1, 2])], {}, "does not fit its data of 3 elements"),
    ([tensor(["a"], [-1, 0])], {}, "does not fit its data of 1 elements"),
    ([tensor(["a", "b"], 1)], {}, "does not fit its data of 2 elements"),
    ([tensor(["a"], [1] * 9)], {}, "at most 8 whole numbers"),
    ([{"shape": [1], "datatype": "BYTES"}], {}, "`data` of a v2 tensor must be a list"),
    ([tensor({"a": 1}, [1])], {}, "`data` of a v2 tensor must be a list"),
    ([tensor("a", [2])], {}, "does not fit its data of 1 elements"),
    ([tensor([])], {}, "list is empty"),
    ([tensor(["a"])], {"id": 42}, "`id` must be a string"),
    ([tensor(["a"])], {"id": "x" * (MAX_ID_CHARACTERS + 1)}, "`id` must be a string of at most 1000"),
    ([tensor(["a"])], {"outputs": [{"name": "logits"}]}, "only output of this model is `predictions`"),
    ([tensor(["a"])], {"outputs": ["predictions"]}, "only output of this model is `predictions`"),
    ([tensor(["a"])], {"outputs": "predictions"}, "only output of this model is `predictions`"),
]


@pytest.mark.parametrize(("tensors", "keys", "message"), WRONG)
def test_what_is_no_request_for_this_model_is_unprocessable(
    worker: Worker, tensors: Sequence[Any], keys: dict[str, Any], message: str
) -> None:
    """pytorch/serve#1225, pytorch/serve#1142"""
    (answer,) = between(worker, v2(*tensors, **keys))
    assert (answer.status, answer.error["type"]) == (422, "unprocessable")
    assert message in answer.error["message"]


def test_the_limit_of_instances_counts_the_elements_of_all_tensors(tmp_path: Path) -> None:
    worker = Worker(Shouter(), make_root(tmp_path, max_instances=3))
    three, four = between(worker, v2(tensor(["a"]), tensor(["b", "c"])), v2(tensor(["a", "b"]), tensor(["c", "d"])))
    assert results(three) == shouts("a", "b", "c")
    assert (four.status, four.error["type"]) == (413, "too_large")


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [("a", {"shout": "A"}), (["a", "b"], shouts("a", "b")), ([{"text": "a"}, {"data": "b"}], shouts("a", "b"))],
)
def test_the_hugging_face_form_of_inputs_stays_what_it_is(worker: Worker, inputs: Any, expected: Any) -> None:
    (answer,) = between(worker, Post.json({"inputs": inputs, "parameters": {}}))
    assert answer.value == expected


@pytest.mark.parametrize("content_type", [JSON, "Application/JSON", "application/vnd.kserve+json"])
def test_v2_is_read_where_torchserve_left_the_body_as_bytes(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, content_type: str
) -> None:
    """pytorch/serve#1839"""
    monkeypatch.setenv("TS_DECODE_INPUT_REQUEST", "false")
    body = json.dumps({"inputs": [tensor(["a"])]}).encode()
    (answer,) = worker.predict(Post(body, content_type))
    assert results(answer) == shouts("a")


def test_a_text_that_looks_like_v2_stays_a_text(worker: Worker) -> None:
    body = json.dumps({"inputs": [tensor(["a"])]})
    (answer,) = between(worker, text(body))
    assert answer.value == {"shout": body.upper()}


def grpc_results(answer: Answer) -> list[Any]:
    """The answers as TorchServe's GRPCJob reads them: it writes each element out as JSON, and needs every key."""
    value = answer.value
    assert [type(value[key]) for key in ("id", "model_name", "model_version")] == [str, str, str]
    (output,) = value["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("predictions", "BYTES", [len(output["data"])])
    return list(output["data"])


@pytest.mark.parametrize("decode", ["true", "false"])
def test_by_grpc_the_elements_are_base64(worker: Worker, monkeypatch: pytest.MonkeyPatch, decode: str) -> None:
    monkeypatch.setenv("TS_DECODE_INPUT_REQUEST", decode)
    (answer,) = worker.predict(grpc(tensor(base64_of("a", "naïve")), id="42"))
    assert (answer.status, answer.value["id"]) == (200, "42")
    assert grpc_results(answer) == shouts("a", "naïve")


def test_over_http_a_body_with_a_model_name_is_no_base64(worker: Worker) -> None:
    (answer,) = between(worker, v2(tensor(["aGk="]), model_name="shouter"))
    assert results(answer) == shouts("aGk=")


@pytest.mark.parametrize(
    ("tensors", "keys", "code"),
    [
        *((tensors, keys, 422) for tensors, keys, _ in WRONG),
        ([], {}, 422),
        (["a"], {}, 422),
        ([tensor(base64_of(*"abcd"))], {}, 413),
        ([tensor(["no base64!"])], {}, 400),
        ([tensor([3])], {}, 400),
        ([tensor([None])], {}, 400),
        ([tensor(base64_of("bad-decode"))], {}, 500),
        ([tensor(base64_of("long") * 3)], {}, 413),
    ],
)
def test_by_grpc_an_error_is_an_answer_because_torchserve_drops_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tensors: Sequence[Any], keys: dict[str, Any], code: int
) -> None:
    """GRPCJob.response fails for a body without `id` or `outputs`, and the batch's other requests with it."""
    monkeypatch.setattr(responses, "MAX_RESPONSE_BYTES", 5000)
    worker = Worker(Shouter(), make_root(tmp_path, max_instances=3))
    (answer,) = between(worker, grpc(*tensors, **keys))
    (error,) = grpc_results(answer)
    assert error["error"]["code"] == code


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.dictionaries(st.sampled_from(["inputs", "outputs", "id", "name", "shape", "datatype", "data"]), inner),
        ),
        max_leaves=12,
    )
)
def test_whatever_comes_by_grpc_has_an_answer_that_torchserve_can_read(shared: Worker, value: Any) -> None:
    (answer,) = between(shared, grpc(value, value))
    assert grpc_results(answer)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Worker:
    return Worker(Shouter(), make_root(tmp_path_factory.mktemp("shouter")))
