"""What TorchServe hands over -> the instances to predict.

TorchServe gives each request as a dict: {"body": value} for a raw body, {field: value} for a form. A value is already
parsed JSON or str when the Content-Type was exactly `application/json` or began with `text`, else a bytearray.

| a client sends                                          | instances                                    |
|---------------------------------------------------------|----------------------------------------------|
| raw bytes or text                                       | one                                          |
| a JSON string                                           | one                                          |
| a JSON object with `text`, `data`, `inputs` or `b64`    | one, or one for each element of a list       |
| a JSON list                                             | one for each element                         |
| a JSON object with `instances` (KServe v1)              | one for each element, answer in `predictions`|
| a JSON object with tensors as `inputs` (KServe v2)      | one for each element, answer in a tensor     |
| a form (multipart or urlencoded) of one field           | as a raw body of the field's Content-Type    |
| a form of several fields                                | one for each field                           |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from handlers.errors import MalformedRequest, RequestError, UnprocessableInstance
from handlers.kserve import V2Answer, elements, given_id, is_grpc, is_v2
from handlers.work import WORK_MS, Work

KEYS = ("text", "data", "inputs", "b64")
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
UNREADABLE_CHARSET = "unreadable"


@dataclass(frozen=True, slots=True)
class Request:
    """One request: TorchServe's fields, the headers by lower-case name, and the id that the logs know it by.

    `parts` has each field's own Content-Type; TorchServe knows one for files of a multipart form and for raw bodies.
    `explain` says whether it came by /explanations, `work` what its instances together may cost.
    """

    fields: Mapping[str, Any]
    headers: Mapping[str, str]
    request_id: str
    parts: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False
    work: Work = field(default_factory=Work, compare=False, repr=False)

    @classmethod
    def of(cls, fields: Mapping[str, Any], context: Any, index: int, work_ms: int = WORK_MS) -> Request:
        """The request at `index` of the batch. TorchServe mixes the parts' headers, which are dicts, into its own."""
        headers = context.get_all_request_header(index)
        plain = {str(name).lower(): value for name, value in headers.items() if isinstance(value, str)}
        parts = {name: value.get("content-type", "") for name, value in headers.items() if isinstance(value, Mapping)}
        # The frontend's own spelling: a client may send other ones to /predictions.
        explain = headers.get("explain") == "True"
        return cls(fields, plain, context.get_request_id(index) or "", parts, explain, Work(work_ms))


@dataclass(frozen=True, slots=True)
class Item:
    """One instance as it came: str, bytes or a parsed JSON value, with the media type it was sent under, if any.

    A RequestError as the value stands for an instance that was found unreadable. `work` is what its request may still
    cost: all the items of a request have the same.
    """

    value: Any
    media_type: str = ""
    charset: str = "utf-8"
    work: Work = field(default_factory=Work, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Items:
    """A request's instances. `many`: answer with a list. `envelope`: what the list is wrapped in, a key or v2's own."""

    items: list[Item]
    many: bool = False
    envelope: str | V2Answer | None = None


def items(request: Request) -> Items:
    """Find the instances of a request.

    Raises MalformedRequest for a body that is not what its Content-Type says, UnprocessableInstance where there is
    nothing to predict.
    """
    fields = request.fields
    media_type, charset = _content_type(request.headers.get("content-type") or request.parts.get("body", ""))
    if "body" in fields and media_type not in FORMS:
        return _from_body(_item(fields["body"], media_type, charset), request)
    if not fields:
        # TorchServe drops form data without a "=", which is what `curl -d 'some text'` sends.
        raise UnprocessableInstance("The request has no data: send it as application/json or text/plain.")
    parts = [_item(value, *_content_type(request.parts.get(name, ""))) for name, value in fields.items()]
    if len(parts) == 1:
        return _from_body(parts[0], request)
    return Items([_from_part(part, request.work) for part in parts], many=True)


def _content_type(header: str) -> tuple[str, str]:
    message = Message()
    message["content-type"] = header or "application/octet-stream"
    try:
        charset = message.get_content_charset("utf-8")
    except (LookupError, TypeError, ValueError):  # `charset*0=a; charset*=b` and other parameters of RFC 2231
        charset = UNREADABLE_CHARSET
    return (message.get_content_type() if header else ""), charset


def _item(value: Any, media_type: str, charset: str) -> Item:
    if isinstance(value, bytearray):
        value = bytes(value)
    elif isinstance(value, str) and media_type.startswith("text/") and charset != "utf-8":
        # TorchServe reads every text as UTF-8, and some in other charsets, such as UTF-16LE, happen to be that too.
        value = value.encode("utf-8")
    return Item(value, media_type, charset)


def _from_body(item: Item, request: Request) -> Items:
    value = _parsed(item)
    if is_v2(value, request.headers):
        return _from_v2(value, request)
    if isinstance(value, Mapping) and "instances" in value:
        if not isinstance(value["instances"], list):
            raise UnprocessableInstance("`instances` must be a list.")
        return _many(value["instances"], request.work, "predictions")
    value = _unwrap(value)
    if isinstance(value, list):
        return _many(value, request.work)
    return Items([Item(value, item.media_type, item.charset, request.work)])


def _from_v2(body: Mapping[str, Any], request: Request) -> Items:
    grpc = is_grpc(body, request.headers)
    answer = V2Answer(given_id(body) or request.request_id, grpc)
    try:
        return _many(elements(body, grpc), request.work, answer)
    except RequestError as error:
        if not grpc:
            raise
        return Items([Item(error)], many=True, envelope=answer)


def _from_part(item: Item, work: Work) -> Item:
    """One of several parts: what is wrong with it is told in its place."""
    try:
        return Item(_unwrap(_parsed(item)), item.media_type, item.charset, work)
    except MalformedRequest as error:
        return Item(error)


def _many(values: list[Any], work: Work, envelope: str | V2Answer | None = None) -> Items:
    return Items([Item(_unwrap(value), work=work) for value in values], many=True, envelope=envelope)


def _parsed(item: Item) -> Any:
    """The item's value, parsed where it is JSON that TorchServe left as bytes."""
    is_json = item.media_type == "application/json" or item.media_type.endswith("+json")
    return _json(item.value) if is_json and isinstance(item.value, bytes) else item.value


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise MalformedRequest("The body is not valid JSON.") from None


def _unwrap(value: Any) -> Any:
    """{"text": x} -> x; other values stay as they are, so that `decode` judges each in its place."""
    if isinstance(value, Mapping):
        for key in KEYS:
            if key in value:
                return value[key]
    return value
