"""TorchServe's own service envelopes around the handlers: every row is answered, as objects that the envelope wraps."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ts.protocol.otf_message_handler import _retrieve_inference_msg
from ts.torch_handler.request_envelope.body import BodyEnvelope
from ts.torch_handler.request_envelope.json import JSONEnvelope
from ts.torch_handler.request_envelope.kserve import KServeEnvelope
from ts.torch_handler.request_envelope.kservev2 import KServev2Envelope

from handlers import envelopes
from tests.handlers.worker import Part, Post, Socket, encode_batch
from tests.handlers.wrapped import codes, outputs, shouting, shouts, v1, v2


def only(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The worker's process has one envelope loaded, as TorchServe's has."""
    for other in envelopes.ENVELOPES - {name}:
        monkeypatch.delitem(sys.modules, envelopes.MODULES + other, raising=False)


@pytest.mark.parametrize("instance", ["good", {"data": "good"}, {"text": "good", "target": 1}])
def test_kserve_gives_one_prediction_for_each_instance(tmp_path: Path, instance: Any) -> None:
    worker = shouting(tmp_path, KServeEnvelope)
    (single,) = worker.ask(v1(instance))
    (many,) = worker.ask(v1(instance, "b", {"inputs": "c"}))
    assert (single.status, single.value) == (200, {"predictions": shouts("good")})
    assert (many.status, many.value) == (200, {"predictions": shouts("good", "b", "c")})
    assert many.content_type.startswith("application/json")


def test_kserve_reads_bodies_that_torchserve_left_as_bytes(tmp_path: Path) -> None:
    worker = shouting(tmp_path, KServeEnvelope)
    (answer,) = worker.ask(Post(b'{"instances": ["a", "b"]}', "application/octet-stream"))
    assert answer.value == {"predictions": shouts("a", "b")}


@pytest.mark.parametrize(("bad", "code"), [("", 422), (3, 422), ("refuse", 415), ("bad-predict", 500), ("nan", 500)])
def test_kserve_has_an_error_in_the_place_of_a_bad_instance(tmp_path: Path, bad: Any, code: int) -> None:
    worker = shouting(tmp_path, KServeEnvelope)
    (single,) = worker.ask(v1(bad))
    assert (single.status, codes(single.value["predictions"])) == (code, [code])
    (mixed,) = worker.ask(v1("a", bad, "c"))
    assert (mixed.status, codes(mixed.value["predictions"])) == (200, [200, code, 200])
    assert [mixed.value["predictions"][place] for place in (0, 2)] == shouts("a", "c")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"instances": []}, 422),
        ({"instances": None}, 422),
        ({"inputs": "a"}, 422),
        ({"instances": {"text": "a"}}, 422),
        ({"instances": "abc"}, 422),
        ({"instances": 7}, 422),
        ({"instances": ["a"] * 4}, 413),
        ({"instances": ["a"] * 100_000}, 413),
    ],
)
def test_kserve_refuses_a_request_that_has_no_place_for_an_error(tmp_path: Path, body: Any, status: int) -> None:
    worker = shouting(tmp_path, KServeEnvelope, max_instances=3)
    (answer,) = worker.ask(Post.json(body))
    assert (answer.status, answer.error["code"]) == (status, status)
    (after,) = worker.ask(v1("a"))
    assert after.value == {"predictions": shouts("a")}


def test_kserve_answers_the_request_of_a_batch_that_was_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The envelope drops the others: they may be asked again, and cost the first nothing."""
    only(monkeypatch, "kserve")
    first, second, third = shouting(tmp_path, KServeEnvelope).ask(v1("a", "b"), v1("c"), v1("d"))
    assert (first.status, first.value) == (200, {"predictions": shouts("a", "b")})
    for dropped in (second, third):
        assert (dropped.status, dropped.error["type"]) == (503, "overloaded")
        assert "batchSize to 1" in dropped.error["message"]


def test_kservev2_gives_one_output_for_each_tensor(tmp_path: Path) -> None:
    worker = shouting(tmp_path, KServev2Envelope)
    (single,) = worker.ask(v2("good", id="42"))
    assert (single.status, single.value["id"], outputs(single)) == (200, "42", shouts("good"))
    (many,) = worker.ask(v2("a", "b"))
    assert (many.value["id"], outputs(many)) == (many.request_id, shouts("a", "b"))


@pytest.mark.parametrize("shape", [-1, [-1], [1], [1, 1], 1, []])
def test_kservev2_takes_the_shapes_of_published_examples(tmp_path: Path, shape: Any) -> None:
    tensor = {"name": "t0", "shape": shape, "datatype": "BYTES", "data": ["good"]}
    (answer,) = shouting(tmp_path, KServev2Envelope).ask(Post.json({"inputs": [tensor]}))
    assert (answer.status, outputs(answer)) == (200, shouts("good"))


@pytest.mark.parametrize("bad", ["", "refuse", "bad-predict", 3, None])
def test_kservev2_has_an_error_in_the_place_of_a_bad_tensor(tmp_path: Path, bad: Any) -> None:
    (answer,) = shouting(tmp_path, KServev2Envelope).ask(v2("a", bad, "c"))
    assert answer.status == 200
    first, error, last = outputs(answer)
    assert ([first, last], error["error"]["request_id"]) == (shouts("a", "c"), answer.request_id)


@pytest.mark.parametrize(
    ("inputs", "status"),
    [
        ([], 422),
        ([{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}], 422),
        ([{"name": "x", "shape": [2], "datatype": "BYTES", "data": ["a", "b"]}], 422),
        ([{"name": "x", "shape": [1, 2], "datatype": "BYTES", "data": [["a", "b"]]}], 422),
        ([{"name": "x", "shape": [1], "datatype": "BYTES", "data": ["a"]}] * 4, 413),
    ],
)
def test_kservev2_refuses_what_it_cannot_answer_in_its_place_and_keeps_nothing_of_it(
    tmp_path: Path, inputs: Any, status: int
) -> None:
    """Of several elements the envelope hands over the first alone, and the rest would get no answer."""
    worker = shouting(tmp_path, KServev2Envelope, max_instances=3)
    (answer,) = worker.ask(Post.json({"id": "one", "inputs": inputs}))
    assert (answer.status, answer.error["code"]) == (status, status)
    (after,) = worker.ask(v2("a"))
    assert (after.value["id"], outputs(after)) == (after.request_id, shouts("a"))


def test_kservev2_answers_the_request_of_a_batch_that_was_handed_over(tmp_path: Path) -> None:
    worker = shouting(tmp_path, KServev2Envelope)
    first, second = worker.ask(v2("a", "b", id="42"), v2("c"))
    assert (first.status, first.value["id"], second.status) == (200, "42", 503)
    (output,) = first.value["outputs"]
    assert [json.loads(element) for element in output["data"]] == shouts("a", "b")
    (after,) = worker.ask(v2("a"))
    assert (after.value["id"], outputs(after)) == (after.request_id, shouts("a"))


def test_json_gives_each_request_its_own_predictions(tmp_path: Path) -> None:
    worker = shouting(tmp_path, JSONEnvelope)
    (single,) = worker.ask(v1("good"))
    assert (single.status, single.value) == (200, {"predictions": shouts("good")})
    answers = worker.ask(v1("a", {"text": "b"}), v1("refuse", "c"), v1({"data": "d"}))
    predictions = [answer.value["predictions"] for answer in answers]
    assert [predictions[0], predictions[1][1:], predictions[2]] == [shouts("a", "b"), shouts("c"), shouts("d")]
    assert codes(predictions[1]) == [415, 200]
    good, bad = worker.ask(v1("a"), v1("refuse"))
    assert (good.status, good.value, bad.status) == (200, {"predictions": shouts("a")}, 415)
    assert codes(bad.value["predictions"]) == [415]


def test_json_reads_bytes_in_base64(tmp_path: Path) -> None:
    encoded = {"b64": base64.b64encode("naïve".encode()).decode()}
    (answer,) = shouting(tmp_path, JSONEnvelope).ask(v1(encoded, {"data": encoded}, {"text": "plain"}))
    assert answer.value == {"predictions": shouts("naïve", "naïve", "plain")}


def test_json_refuses_too_many_instances_of_any_number_of_requests(tmp_path: Path) -> None:
    worker = shouting(tmp_path, JSONEnvelope, max_instances=3)
    (alone,) = worker.ask(v1(*"abcd"))
    assert (alone.status, alone.error["type"]) == (413, "too_large")
    assert [answer.status for answer in worker.ask(v1(*"abcdef"), v1("g"))] == [413, 413]


@pytest.mark.parametrize(
    ("post", "expected"),
    [
        (Post.json("good"), {"shout": "GOOD"}),
        (Post.json({"text": "good"}), {"shout": "GOOD"}),
        (Post.json(["a", "b"]), shouts("a", "b")),
        (v1("a"), {"predictions": shouts("a")}),
        (Post(b"good", "text/plain"), {"shout": "GOOD"}),
        (Post(b"good"), {"shout": "GOOD"}),
        (Post.form(Part("data", b"good", "")), {"shout": "GOOD"}),
    ],
)
def test_body_is_answered_as_without_an_envelope(tmp_path: Path, post: Post, expected: Any) -> None:
    worker = shouting(tmp_path, BodyEnvelope)
    first, answer, last = worker.ask(Post.json("first"), post, Post(b"{", "application/json"))
    assert (first.status, first.value) == (200, {"shout": "FIRST"})
    assert (answer.status, answer.value) == (200, expected)
    assert (last.status, last.error["type"]) == (400, "malformed")
    (alone,) = worker.ask(post)
    assert (alone.status, alone.value) == (200, expected)


def test_body_keeps_json_lines(tmp_path: Path) -> None:
    (answer,) = shouting(tmp_path, BodyEnvelope).ask(Post(b'"a"\n"b"', "application/jsonlines"))
    assert [json.loads(line) for line in answer.body.splitlines()] == shouts("a", "b")


@pytest.mark.parametrize("post", [Post(b""), Post.form(Part("other", b"x"))])
def test_body_without_a_body_is_unprocessable(tmp_path: Path, post: Post) -> None:
    (answer,) = shouting(tmp_path, BodyEnvelope).ask(post)
    assert (answer.status, answer.error["type"]) == (422, "unprocessable")


@pytest.mark.parametrize("name", [None, "body", "json", "kserve", "kservev2"])
def test_bodies_are_left_unread_where_no_envelope_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    """TorchServe would parse 28 MB of JSON before the handler could refuse it; the json envelope needs it parsed."""
    monkeypatch.setenv(envelopes.DECODE_VARIABLE, "true")
    only(monkeypatch, name or "none")
    envelopes.leave_bodies_unread()
    frame = encode_batch([Post(b'{"text": "a"}', "application/json")])
    value = _retrieve_inference_msg(Socket(frame))[0]["parameters"][0]["value"]
    assert isinstance(value, bytearray if name is None else dict)
