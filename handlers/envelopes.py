"""TorchServe's service envelopes: what they make of a batch before the handler sees it, and what they need back.

`service_envelope` in config.properties, or TS_SERVICE_ENVELOPE, as KServe sets it, puts one around `handle` for every
model of the server (ts.torch_handler.request_envelope):

| envelope | hands over                                              | makes of the answers                        |
|----------|---------------------------------------------------------|---------------------------------------------|
| none     | the fields of each request                              | the bodies, one for each request            |
| body     | the body of each request                                | the same                                    |
| json     | the `instances` of all requests, one after the other    | `predictions` of each request               |
| kserve   | the `instances` of the first request alone              | one `predictions` or `explanations`         |
| kservev2 | the tensors of the first request alone, as objects; of  | one v2 response with a tensor for each      |
|          | a BYTES tensor its first element alone, as its `data`   |                                             |

So answers under an envelope are Python objects, one for each row that was handed over. Which envelope it is cannot be
asked; the rows and the context tell it as far as needed. An envelope leaves an answer alone that is false, which is how
requests are refused that have no row to be answered in.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from handlers.errors import RequestError, TooLarge, UnprocessableInstance
from handlers.requests import BODY, Request
from handlers.responses import JSON, Response, ResponseTooLarge, checked
from handlers.work import Work

MODULES = "ts.torch_handler.request_envelope."
# TorchServe's worker asks it at every request, and parses bodies only where it is not "false".
DECODE_VARIABLE = "TS_DECODE_INPUT_REQUEST"
# What the kservev2 envelope leaves in the context until it has the answers.
V2_NAMES, V2_ID = "input_names", "input_request_id"
# TorchServe writes out objects with as many spaces.
INDENT = 2
ENVELOPES = {"body", "json", "kserve", "kservev2"}
OK = 200


class Dropped(RequestError):
    """A request that TorchServe's envelope did not hand over, for another of its batch."""

    status = 503
    type = "overloaded"

    def __init__(self) -> None:
        super().__init__("The server's envelope reads one request of a batch alone: set batchSize to 1, or try again.")


def leave_bodies_unread() -> None:
    """Have TorchServe's worker hand bodies over as they came.

    It would parse JSON before anybody can look at it: 28 MB of empty lists cost it three seconds and 900 MB. Under an
    envelope it must, because one of them reads nothing else.
    """
    if not _loaded():
        os.environ[DECODE_VARIABLE] = "false"


def opened(data: Any, context: Any, work_ms: int, most: int) -> Batch:
    """The requests in what was handed over, of which each may have `most` instances."""
    ids = getattr(context, "request_ids", None)
    count = len(ids) if ids else len(data)
    if _is_plain(data, context, count):
        return Batch(context, [Request.of(fields, context, index, work_ms, most) for index, fields in enumerate(data)])
    requests = [Request.of({}, context, index, work_ms) for index in range(count)]
    if hasattr(context, V2_NAMES):
        return First(context, [_request(_tensors(data, requests[0], context), requests[0])], count, v2=True)
    rows = len(data) if isinstance(data, list) else 0
    if rows == count and not (count > 1 and _loaded() == {"kserve"}):
        return Rows(context, [_request(row, request) for row, request in zip(data, requests, strict=True)])
    if count == 1 or _loaded() == {"kserve"}:
        return First(context, [_request({"instances": data}, requests[0])], count)
    if rows > count * most:
        error = TooLarge(f"At most {most} instances fit in one request.")
        return Rows(context, [_request(error, request) for request in requests], refused=True)
    explain = all(request.explain for request in requests)
    nameless = replace(requests[0], request_id="", explain=explain)
    return Mixed(context, [_request(row, replace(nameless, work=Work(work_ms))) for row in data])


@dataclass(frozen=True, slots=True)
class Batch:
    """The requests of a batch as TorchServe itself hands them over."""

    context: Any
    requests: Sequence[Request]

    def answer(self, responses: Sequence[Response]) -> list[Any]:
        """What `handle` returns: a body for each request. Statuses and content types go through the context."""
        return [response.send(self.context, index) for index, response in enumerate(responses)]


class Unwrapped(list[Any]):
    """Answers that an envelope leaves as they are, because they are false."""

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Rows(Batch):
    """A row for each request: its body, or its only instance. `refused`: there were others, and none is answered."""

    refused: bool = False

    def answer(self, responses: Sequence[Response]) -> list[Any]:
        """A JSON value for each request; JSON lines stay bytes."""
        fitting = [_fitting(response, request) for response, request in zip(responses, self.requests, strict=True)]
        answers = [_sent(response, self.context, index) for index, response in enumerate(fitting)]
        return Unwrapped(answers) if self.refused else answers


@dataclass(frozen=True, slots=True)
class First(Batch):
    """The rows of the first of `count` requests, answered as one: its `instances`, or the tensors of `v2`."""

    count: int
    v2: bool = False

    def answer(self, responses: Sequence[Response]) -> list[Any]:
        """A JSON value for each row. What has none in its place is refused, as are the requests not handed over."""
        response = _fitting(responses[0], self.requests[0])
        value = _sent(response, self.context, 0)
        if self.count == 1 and response.status == OK:
            return self._values(value)
        if self.v2:
            self._forget()
        others = [_dropped(self.context, index) for index in range(1, self.count)]
        return Unwrapped([value, *others])

    def _values(self, value: Any) -> list[Any]:
        found: list[Any] = value["outputs"][0]["data"] if self.v2 else value["predictions"]
        return found

    def _forget(self) -> None:
        """What the envelope does once it has wrapped the answers."""
        for name in (V2_NAMES, V2_ID):
            if hasattr(self.context, name):
                delattr(self.context, name)


@dataclass(frozen=True, slots=True)
class Mixed(Batch):
    """The instances of several requests, of which nobody can tell which is whose: statuses are left as they are."""

    def answer(self, responses: Sequence[Response]) -> list[Any]:
        """A JSON value for each instance."""
        return [json.loads(_fitting(*pair).body) for pair in zip(responses, self.requests, strict=True)]


def _loaded() -> set[str]:
    """The envelopes in this process. TorchServe's worker imports the one that it uses, and no other."""
    return {name.removeprefix(MODULES) for name in sys.modules if name.startswith(MODULES)} & ENVELOPES


def _is_plain(data: Any, context: Any, count: int) -> bool:
    """Whether the rows are the fields of requests: TorchServe mixes each field's Content-Type into the headers."""
    if not isinstance(data, list) or len(data) != count:
        return False
    return all(isinstance(row, Mapping) and _are_fields(row, context, index) for index, row in enumerate(data))


def _are_fields(row: Mapping[str, Any], context: Any, index: int) -> bool:
    headers = context.get_all_request_header(index)
    return row.keys() <= headers.keys() or not any(isinstance(value, Mapping) for value in headers.values())


def _request(row: Any, request: Request) -> Request:
    """A request of one row. Only a raw body, and a text, still are what the Content-Type says."""
    if isinstance(row, (bytearray, str)):
        return replace(request, fields={BODY: row})
    headers = {name: value for name, value in request.headers.items() if not name.startswith("content-")}
    return replace(request, fields={BODY: row}, headers=headers, parts={})


def _tensors(tensors: Sequence[dict[str, Any]], request: Request, context: Any) -> object:
    """The v2 request again, as far as the envelope left it, or the error that answers it."""
    texts = [tensor for tensor in tensors if tensor["datatype"] == "BYTES"]
    if any(_had_more(tensor) for tensor in texts):
        return UnprocessableInstance(
            "TorchServe's kservev2 envelope hands over the first element of a tensor alone: send one element in each."
        )
    for tensor in texts:
        tensor["data"] = [tensor["data"]]
    body = {"id": getattr(context, V2_ID, None), "inputs": list(tensors)}
    # Over HTTP, TorchServe always hands headers over (kserve.py).
    return body if request.headers else body | {"model_name": ""}


def _had_more(tensor: Mapping[str, Any]) -> bool:
    shape = tensor.get("shape")
    sizes = shape if isinstance(shape, list) else [shape]
    return isinstance(tensor["data"], list) or any(type(size) is int and size > 1 for size in sizes)


def _dropped(context: Any, index: int) -> object:
    """The answer to a request that the envelope did not hand over."""
    error = Dropped()
    return _sent(Response.error(error.status, error.body(context.get_request_id(index) or "")), context, index)


def _sent(response: Response, context: Any, index: int) -> Any:
    body = response.send(context, index)
    return json.loads(body) if response.media_type == JSON else body


def _fitting(response: Response, request: Request) -> Response:
    """The response, or what says that TorchServe would write it out too large."""
    if response.media_type == JSON:
        try:
            checked(json.dumps(json.loads(response.body), indent=INDENT).encode())
        except ResponseTooLarge as error:
            return Response.error(error.status, error.body(request.request_id))
    return response
