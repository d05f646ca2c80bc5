"""Results and errors become bodies that cannot hurt the worker."""

import json
from http import HTTPStatus
from typing import Any

import numpy as np
import pytest
import torch
from ts.context import Context, RequestProcessor

from handlers import responses
from handlers.errors import (
    MalformedRequest,
    RequestError,
    ServerFault,
    TooLarge,
    UnprocessableInstance,
    UnsupportedMedia,
)
from handlers.responses import Response, ResponseTooLarge, plain
from tests.handlers.worker import not_json


@pytest.mark.parametrize(
    ("value", "body"),
    [
        ({"label": "姓名", "score": 0.5}, '{"label": "姓名", "score": 0.5}'),
        ("naïve 😀", '"naïve 😀"'),
        (None, "null"),
        ([], "[]"),
        (np.float32(0.5), "0.5"),
        (np.float64(0.25), "0.25"),
        (np.int64(7), "7"),
        (np.bool_(True), "true"),
        (np.array([[1, 2], [3, 4]]), "[[1, 2], [3, 4]]"),
        ({"scores": [np.float16(0.5), np.uint8(255)]}, '{"scores": [0.5, 255]}'),
        (torch.tensor([[0.5, 1.0]]), "[[0.5, 1.0]]"),
        ({"score": torch.tensor(0.25, requires_grad=True)}, '{"score": 0.25}'),
        ((1, 2), "[1, 2]"),
        ('line\n"quoted"\u2028', '"line\\n\\"quoted\\"\u2028"'),
        ("half \ud800 pair", '"half ? pair"'),
    ],
)
def test_a_value_is_json_in_utf8(value: object, body: str) -> None:
    """pytorch/serve#943 (no \\u escapes), pytorch/serve#1782, open-mmlab/mmocr#1462 (numpy scalars and tensors)"""
    assert Response.ok(value) == Response(200, body.encode())


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        np.float32("nan"),
        np.array([1.0, np.inf]),
        {"a": [float("nan")]},
        {1, 2},
        b"bytes",
        object(),
        {(1, 2): 3},
        np.array([object()]),
        circular(),
        deep(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_json_raises_here_and_not_in_the_worker(value: object) -> None:
    """pytorch/serve#1304"""
    with pytest.raises((ValueError, TypeError, RecursionError)):
        Response.ok(value)
    with pytest.raises((ValueError, TypeError, RecursionError)):
        plain(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": np.float32(0.5), "b": (1, np.int8(2))}, {"a": 0.5, "b": [1, 2]}),
        (np.arange(3), [0, 1, 2]),
        ("姓\ud800", "姓?"),
        ({3: None}, {"3": None}),
    ],
)
def test_plain_values_are_json_types_alone(value: object, expected: object) -> None:
    assert plain(value) == expected


def test_an_answer_past_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MAX_RESPONSE_BYTES", 10)
    assert Response.ok("12345678").body == b'"12345678"'
    with pytest.raises(ResponseTooLarge, match="Send fewer instances") as caught:
        Response.ok("123456789")
    assert caught.value.status == 413


def test_the_limit_counts_bytes_and_not_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MAX_RESPONSE_BYTES", 10)
    assert Response.ok("éééé").status == 200
    with pytest.raises(ResponseTooLarge):
        Response.ok("ééééé")


def test_the_limit_is_below_torchserves_own() -> None:
    """TorchServe's max_response_size is 6553500 unless configured; the frame around the body takes some of it."""
    assert 0 < responses.MAX_RESPONSE_BYTES < 6_553_500 - 1024


@pytest.mark.parametrize(
    ("error", "status", "kind", "message"),
    [
        (RequestError("a"), 400, "bad_request", "a"),
        (MalformedRequest("b"), 400, "malformed", "b"),
        (TooLarge("c"), 413, "too_large", "c"),
        (ResponseTooLarge("d"), 413, "too_large", "d"),
        (UnsupportedMedia("e"), 415, "unsupported_media", "e"),
        (UnprocessableInstance("é"), 422, "unprocessable", "é"),
        (ServerFault(), 500, "internal", "The model could not answer this request. The server's log has the reason."),
    ],
)
def test_an_error_is_json_with_its_status_and_the_request_id(
    error: RequestError, status: int, kind: str, message: str
) -> None:
    """pytorch/serve#1225, pytorch/serve#1142, pytorch/serve#410"""
    response = Response.error(error.status, error.body("id-1"))
    assert response.status == status
    assert json.loads(response.body, parse_constant=not_json) == {
        "error": {"code": status, "type": kind, "message": message, "request_id": "id-1"}
    }


def test_a_status_of_ones_own_has_a_reason_phrase() -> None:
    context = Context("tiny", "/nowhere", {}, 8, None, "0.12.0")
    context.request_processor = [RequestProcessor({})]
    Response(460, b"{}").send(context, 0)
    assert context.get_response_status(0) == (460, "Error")


@pytest.mark.parametrize("status", [200, 400, 413, 415, 422, 500])
def test_sending_sets_ascii_headers_of_its_own_request_only(status: int) -> None:
    """pytorch/serve#1316, pytorch/serve#1309 (status); pytorch/serve#1385, pytorch/serve#2712 (content type)"""
    context = Context("tiny", "/nowhere", {}, 8, None, "0.12.0")
    context.request_processor = [RequestProcessor({}) for _ in range(3)]
    assert Response(status, b"body").send(context, 1) == b"body"
    assert context.get_response_status(1) == (status, HTTPStatus(status).phrase)
    assert context.get_response_content_type(1) == "application/json; charset=utf-8"
    assert all(text.isascii() for text in (context.get_response_status(1)[1], responses.JSON))
    for other in (0, 2):
        assert context.get_response_status(other) == (200, None)
        assert context.get_response_headers(other) == {}
