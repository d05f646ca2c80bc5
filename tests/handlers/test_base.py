"""BatchHandler inside TorchServe's real worker: a bad request never touches its neighbours."""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ts.context import Context

from handlers import base, responses
from handlers.base import BatchHandler
from handlers.decoding import text_of
from tests.handlers.shouter import GOOD, GOOD_BODY, NEIGHBOUR, NEIGHBOUR_BODY, Shouter, between, make_root, text
from tests.handlers.worker import Part, Post, Worker

JSON = "application/json"


def test_every_request_of_a_batch_is_answered_in_one_prediction(worker: Worker, handler: Shouter) -> None:
    """pytorch/serve#2121, aws/sagemaker-pytorch-inference-toolkit#121"""
    answers = worker.predict(text("a"), text("b"), Post.json("c"), Post(b"d"))
    assert [answer.value for answer in answers] == [{"shout": letter} for letter in "ABCD"]
    assert handler.batches == [["a", "b", "c", "d"]]


def test_a_good_answer_is_json_with_its_type_and_phrase(worker: Worker) -> None:
    """pytorch/serve#2712, pytorch/serve#1385"""
    (answer,) = worker.predict(GOOD)
    assert (answer.status, answer.phrase) == (200, "OK")
    assert answer.content_type == "application/json; charset=utf-8"
    assert answer.headers == {"content-type": "application/json; charset=utf-8"}
    assert answer.body == GOOD_BODY


BAD = [
    (Post(b"\xff\xfe\xfa", "text/plain"), 400, "malformed"),
    (Post(b"{", JSON), 400, "malformed"),
    (Post(b'"\\ud800"', JSON), 400, "malformed"),
    (Post(b"[" * 100_000, JSON), 400, "malformed"),
    (Post(b"", JSON), 400, "malformed"),
    (Post(b"a" * 2001, "text/plain"), 413, "too_large"),
    (Post.json(["a"] * 65), 413, "too_large"),
    (Post.json({"instances": ["a"] * 65}), 413, "too_large"),
    (Post(b"\x89PNG", "image/png"), 415, "unsupported_media"),
    (Post(b"\xff", "text/plain; charset=no-such"), 415, "unsupported_media"),
    (text("refuse"), 415, "unsupported_media"),
    (Post(b""), 422, "unprocessable"),
    (Post(b"", "text/plain"), 422, "unprocessable"),
    (text(" \n "), 422, "unprocessable"),
    (Post.json(""), 422, "unprocessable"),
    (Post.json(0), 422, "unprocessable"),
    (Post.json(False), 422, "unprocessable"),
    (Post.json(None), 422, "unprocessable"),
    (Post.json([]), 422, "unprocessable"),
    (Post.json({}), 422, "unprocessable"),
    (Post.json({"text": ""}), 422, "unprocessable"),
    (Post.json({"text": []}), 422, "unprocessable"),
    (Post.json({"text": {"text": "a"}}), 422, "unprocessable"),
    (Post.json({"txt": "a"}), 422, "unprocessable"),
    (Post.json({"instances": []}), 422, "unprocessable"),
    (Post.json({"instances": "a"}), 422, "unprocessable"),
    (Post.form(), 422, "unprocessable"),
    (Post.form(Part("data", b"")), 422, "unprocessable"),
    (text("bad-decode"), 500, "internal"),
    (text("bad-predict"), 500, "internal"),
    (text("bad-encode"), 500, "internal"),
    (text("nan"), 500, "internal"),
    (text("numpy-nan"), 500, "internal"),
    (text("set"), 500, "internal"),
]


@pytest.mark.parametrize(("post", "status", "kind"), BAD, ids=lambda value: str(value)[:40])
def test_a_bad_request_fails_alone(tmp_path: Path, post: Post, status: int, kind: str) -> None:
    """pytorch/serve#1230, pytorch/serve#1316, pytorch/serve#1309, pytorch/serve#1225, pytorch/serve#1142

    pytorch/serve#410 (a cause in the answer), pytorch/serve#1304 (no NaN)
    """
    worker = Worker(Shouter(), make_root(tmp_path, max_text_bytes=2000))
    (answer,) = between(worker, post)
    assert answer.status == status
    assert answer.content_type == "application/json; charset=utf-8"
    assert answer.error["type"] == kind
    assert answer.error["message"].endswith(".")


def test_many_bad_requests_fail_each_for_its_own_reason(worker: Worker) -> None:
    answers = between(worker, *(post for post, status, _ in BAD if status != 413))
    assert [answer.status for answer in answers] == [status for _, status, _ in BAD if status != 413]


def test_a_batch_of_bad_requests_alone_never_reaches_the_network(worker: Worker, handler: Shouter) -> None:
    answers = worker.predict(Post(b"{", JSON), Post(b"", "text/plain"), text("refuse"))
    assert [answer.status for answer in answers] == [400, 422, 415]
    assert handler.batches == []


@pytest.mark.parametrize("count", [1, 2, 8])
def test_a_list_is_answered_with_a_list_of_its_length(worker: Worker, count: int) -> None:
    """pytorch/serve#730, pytorch/serve#2853, pytorch/serve#2068, pytorch/serve#1394"""
    texts = [f"text {number}" for number in range(count)]
    (answer,) = between(worker, Post.json(texts))
    assert answer.status == 200
    assert answer.value == [{"shout": text.upper()} for text in texts]


def test_kserve_requests_of_one_batch_are_all_answered(worker: Worker, handler: Shouter) -> None:
    """pytorch/serve#2158, pytorch/serve#1302, pytorch/serve#911"""
    posts = [Post.json({"instances": instances}) for instances in (["a", {"text": "b"}], ["c"], ["d", "e", "f"])]
    answers = worker.predict(*posts)
    assert [answer.value for answer in answers] == [
        {"predictions": [{"shout": "A"}, {"shout": "B"}]},
        {"predictions": [{"shout": "C"}]},
        {"predictions": [{"shout": "D"}, {"shout": "E"}, {"shout": "F"}]},
    ]
    assert handler.batches == [["a", "b", "c", "d", "e", "f"]]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ("", 422),
        (3, 422),
        (None, 422),
        (["a"], 422),
        ({}, 422),
        ({"txt": "a"}, 422),
        ("refuse", 415),
        ("half \ud800", 400),
        ("bad-decode", 500),
        ("bad-predict", 500),
        ("bad-encode", 500),
        ("nan", 500),
        ("set", 500),
    ],
)
def test_a_bad_element_is_reported_in_its_place(worker: Worker, bad: Any, code: int) -> None:
    for body, envelope in ((["a", bad, "c"], None), ({"instances": ["a", bad, "c"]}, "predictions")):
        (answer,) = between(worker, Post.json(body))
        assert answer.status == 200
        first, error, last = answer.value[envelope] if envelope else answer.value
        assert (first, last) == ({"shout": "A"}, {"shout": "C"})
        assert error["error"]["code"] == code
        assert error["error"]["request_id"] == answer.request_id


def test_a_list_of_bad_elements_is_a_list_of_errors(worker: Worker) -> None:
    """pytorch/serve#1316: a list's status is 200 whatever is in it, so that a client reads it in one way."""
    (answer,) = between(worker, Post.json(["", 3, "refuse"]))
    assert answer.status == 200
    assert [element["error"]["code"] for element in answer.value] == [422, 422, 415]


def test_form_fields_are_answered_in_order(worker: Worker) -> None:
    single, several = between(
        worker,
        Post.form(Part("data", b"one", "application/octet-stream")),
        Post.form(Part("a", b"one"), Part("b", b'{"text": "two"}', JSON), Part("c", b"")),
    )
    assert single.value == {"shout": "ONE"}
    assert several.value[:2] == [{"shout": "ONE"}, {"shout": "TWO"}]
    assert several.value[2]["error"]["code"] == 422


@pytest.mark.parametrize("decode", ["true", "false"])
def test_the_parts_of_a_form_keep_their_own_content_types(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, decode: str
) -> None:
    """pytorch/serve#1839: read alike whether or not TorchServe decodes."""
    monkeypatch.setenv("TS_DECODE_INPUT_REQUEST", decode)
    (answer,) = between(
        worker,
        Post.form(
            Part("body", b"one", ""),
            Part("latin", b"caf\xe9", "text/plain; charset=latin-1"),
            Part("wide", "two".encode("utf-16-le"), "text/plain; charset=utf-16le"),
            Part("json", b'{"text": "three"}', "application/json; charset=utf-8"),
            Part("photo", b"\xff\xd8", "image/jpeg"),
            Part("broken", b'{"text', "application/vnd.x+json"),
        ),
    )
    assert answer.value[:4] == [{"shout": "ONE"}, {"shout": "CAF\u00c9"}, {"shout": "TWO"}, {"shout": "THREE"}]
    assert [element["error"]["code"] for element in answer.value[4:]] == [415, 400]


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "application/a+json"])
def test_an_undecoded_invocation_of_sagemaker_is_read_by_its_header(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, content_type: str
) -> None:
    """pytorch/serve#1839, aws/sagemaker-python-sdk#3341, aws/sagemaker-python-sdk#4869"""
    monkeypatch.setenv("TS_DECODE_INPUT_REQUEST", "false")
    query = Part("TargetModel", b"m")
    body = Part("body", '["caf\u00e9", {"inputs": "b"}]'.encode(), content_type.partition(";")[0])
    (answer,) = between(worker, Post(parts=(query, body), content_type=content_type))
    assert answer.value == [{"shout": "CAF\u00c9"}, {"shout": "B"}]


@pytest.mark.parametrize("header", ["Content-Type", "content-type", "CONTENT-TYPE"])
@pytest.mark.parametrize("content_type", [JSON, "Application/JSON", "application/json; charset=utf-8"])
def test_json_is_json_whether_or_not_torchserve_decodes_it(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, header: str, content_type: str
) -> None:
    """pytorch/serve#1839, aws/sagemaker-python-sdk#3341, pytorch/serve#2155"""
    post = Post('{"text": "h\u00e9"}'.encode(), content_type, header=header)
    monkeypatch.delenv("TS_DECODE_INPUT_REQUEST", raising=False)
    decoded = worker.predict(post)
    monkeypatch.setenv("TS_DECODE_INPUT_REQUEST", "false")
    assert worker.predict(post) == decoded
    assert decoded[0].value == {"shout": "H\u00c9"}


@pytest.mark.parametrize("decode", ["true", "false"])
@pytest.mark.parametrize("charset", ["utf-8", "latin-1", "utf-16", "cp1252"])
def test_text_is_read_in_its_charset(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, charset: str, decode: str
) -> None:
    monkeypatch.setenv("TS_DECODE_INPUT_REQUEST", decode)
    (answer,) = worker.predict(Post("caf\u00e9 au lait".encode(charset), f"text/plain; charset={charset}"))
    assert answer.value == {"shout": "CAF\u00c9 AU LAIT"}


@pytest.mark.parametrize("stage", ["decode", "predict", "encode"])
def test_a_fault_of_a_hook_costs_only_its_own_instance(worker: Worker, handler: Shouter, stage: str) -> None:
    culprit = f"bad-{stage}"
    first, second, third = worker.predict(text("a"), Post.json(["b", culprit, "c"]), text(culprit))
    assert first.value == {"shout": "A"}
    assert [element.get("shout") for element in second.value] == ["B", None, "C"]
    assert third.status == 500
    tried = {
        "decode": [["a", "b", "c"]],
        "predict": [["a", "b", culprit, "c", culprit], ["a"], ["b"], [culprit], ["c"], [culprit]],
        "encode": [["a", "b", culprit, "c", culprit]],
    }
    assert handler.batches == tried[stage]


@pytest.mark.parametrize("wrong", [[], ["X"], ["X", "Y", "Z"], None, 3, {"X": "Y"}])
def test_a_wrong_number_of_results_is_never_dealt_out(worker: Worker, handler: Shouter, wrong: Any) -> None:
    """pytorch/serve#730, pytorch/serve#2853: the instances are tried alone."""
    handler.misbehave = {2: wrong}
    assert [answer.body for answer in worker.predict(GOOD, NEIGHBOUR)] == [GOOD_BODY, NEIGHBOUR_BODY]
    assert [len(batch) for batch in handler.batches] == [2, 1, 1]


@pytest.mark.parametrize("wrong", [[], ["X", "Y"], None])
def test_a_wrong_number_of_results_for_one_instance_is_a_fault(worker: Worker, handler: Shouter, wrong: Any) -> None:
    handler.misbehave = {1: wrong}
    (answer,) = worker.predict(GOOD)
    assert (answer.status, answer.error["type"]) == (500, "internal")


def test_results_may_be_an_array(worker: Worker, handler: Shouter) -> None:
    handler.misbehave = {2: np.array(["X", "Y"])}
    assert [answer.value for answer in worker.predict(GOOD, NEIGHBOUR)] == [{"shout": "X"}, {"shout": "Y"}]


def test_a_label_comes_out_unescaped(worker: Worker) -> None:
    """pytorch/serve#943"""
    (answer,) = worker.predict(text("name"))
    assert answer.body == '{"label": "姓名"}'.encode()


def test_numpy_values_become_json(worker: Worker) -> None:
    """pytorch/serve#1782, open-mmlab/mmocr#1462"""
    (answer,) = between(worker, text("numpy"))
    assert answer.value == {"score": 0.5, "count": 3, "ids": [0, 1]}


def test_an_answer_too_large_for_torchserve_is_refused(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MAX_RESPONSE_BYTES", 3000)
    one, two = between(worker, text("long"), Post.json(["long", "long"]))
    assert one.value == "x" * 2000
    assert (two.status, two.error["type"]) == (413, "too_large")


def test_max_instances_is_allowed_itself(tmp_path: Path) -> None:
    worker = Worker(Shouter(), make_root(tmp_path, max_instances=3))
    three, four = between(worker, Post.json(["a"] * 3), Post.json(["a"] * 4))
    assert three.value == [{"shout": "A"}] * 3
    assert (four.status, four.error["message"]) == (413, "At most 3 instances fit in one request.")


def test_a_handler_without_hooks_answers_faults(tmp_path: Path) -> None:
    worker = Worker(BatchHandler(), make_root(tmp_path))
    assert [answer.status for answer in worker.predict(GOOD, NEIGHBOUR)] == [500, 500]


def test_an_empty_batch_gives_no_answers(tmp_path: Path) -> None:
    handler = Shouter()
    worker = Worker(handler, make_root(tmp_path))
    assert worker.predict() == []
    assert handler.handle([], Context("tiny", str(tmp_path), {}, 8, None, "0.12.0")) == []


def test_the_handler_of_the_first_page_answers(tmp_path: Path) -> None:
    """base.py begins with a whole handler, which a newcomer copies."""
    page = str(base.__doc__)
    source = textwrap.dedent(page[page.index("    class Lengths") : page.index("sentiment.py and food.py")])
    names: dict[str, Any] = {"BatchHandler": BatchHandler, "text_of": text_of}
    exec(source, names)
    worker = Worker(names["Lengths"](), make_root(tmp_path))
    assert [answer.value for answer in worker.predict(text("four"), text("a"))] == [{"length": 4}, {"length": 1}]
