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
| JSON lines                                              | one for each line, answer in lines           |
| a form (multipart or urlencoded) of one field           | as a raw body of the field's Content-Type    |
| a form of several fields                                | one for each field                           |

Instances are counted before anything is made of them, and never further than the limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from handlers.encodings import inflated
from handlers.errors import MalformedRequest, RequestError, TooLarge, UnprocessableInstance, UnsupportedMedia
from handlers.kserve import V2Answer, elements, given_id, is_grpc, is_v2, may_be_grpc
from handlers.media import FORMS, UNTYPED, URLENCODED, content_type, is_json, is_json_lines, looks_like_json
from handlers.parsing import parsed, parsed_lines
from handlers.settings import MAX_INSTANCES
from handlers.work import WORK_MS, Work

KEYS = ("text", "data", "inputs", "b64")
JSON_TYPE = "application/json"
# What TorchServe calls the field of a raw body.
BODY = "body"
# Of a urlencoded form. Any other is a text or a JSON value that was sent without a Content-Type, as `curl -d` does:
# TorchServe split it at `=` and `&` and replaced `+` and `%41`, so what it was cannot be told any more.
FIELD_NAME = re.compile(r"[\w.:\[\]-]{1,100}")
# KServe's extension of v2 by binary tensors: the body is JSON of so many bytes, and what follows them.
BINARY_TENSORS = "inference-header-content-length"


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
    def of(
        cls, fields: Mapping[str, Any], context: Any, index: int, work_ms: int = WORK_MS, most: int = MAX_INSTANCES
    ) -> Request:
        """The request at `index` of the batch. TorchServe mixes the parts' headers, which are dicts, into its own.

        A form of more than `most` fields will be refused, and is not looked at.
        """
        request_id = context.get_request_id(index) or ""
        if len(fields) > most:
            return cls(fields, {}, request_id)
        headers = context.get_all_request_header(index)
        plain = {str(name).lower(): value for name, value in headers.items() if isinstance(value, str)}
        parts = {name: value.get("content-type", "") for name, value in headers.items() if isinstance(value, Mapping)}
        # The frontend's own spelling: a client may send other ones to /predictions.
        explain = headers.get("explain") == "True"
        fields = {
            name: _text(value) if parts.get(name, "").startswith("text") else value for name, value in fields.items()
        }
        return cls(fields, plain, request_id, parts, explain, Work(work_ms))


def _text(value: Any) -> Any:
    """A text as a str where it is UTF-8, as TorchServe has it where it does not leave bodies unread (envelopes.py)."""
    if isinstance(value, bytearray):
        with suppress(UnicodeDecodeError):
            return value.decode("utf-8")
    return value


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

    def size(self) -> int:
        """Bytes or characters of it, where it has such: what decoding it costs grows with them."""
        return len(self.value) if isinstance(self.value, (str, bytes)) else 0


@dataclass(frozen=True, slots=True)
class Lines:
    """Answers as JSON lines."""


@dataclass(frozen=True, slots=True)
class Items:
    """A request's instances. `many`: answer with a list. `envelope`: what the list is wrapped in, a key or v2's own."""

    items: list[Item]
    many: bool = False
    envelope: str | V2Answer | Lines | None = None


def items(request: Request, most: int = MAX_INSTANCES) -> Items:
    """Find the instances of a request, at most so many.

    Raises MalformedRequest for a body that is not what its Content-Type or Content-Encoding says, UnprocessableInstance
    where there is nothing to predict, UnsupportedMedia for what no model reads, and TooLarge.
    """
    fields = request.fields
    if len(fields) > most:
        raise TooLarge(f"At most {most} instances fit in one request.")
    if BINARY_TENSORS in request.headers:
        raise UnsupportedMedia("Binary tensors of the v2 protocol are not read: send the tensors' data as JSON.")
    header = request.headers.get("content-type") or request.parts.get(BODY, "")
    media_type, charset = content_type(header)
    encoding = request.headers.get("content-encoding", "")
    if BODY in fields and media_type not in FORMS:
        value = inflated(fields[BODY], encoding, request.work)
        return _from_body(Item(value, media_type, charset, request.work), request, most)
    if not fields:
        # TorchServe drops form data without a "=", which is what `curl -d 'some text'` sends.
        raise UnprocessableInstance("The request has no data: send it as application/json or text/plain.")
    if encoding:
        raise UnsupportedMedia("A form with a Content-Encoding is not read: send it as it is.")
    if media_type == URLENCODED and not all(map(FIELD_NAME.fullmatch, fields)):
        raise UnsupportedMedia(
            "The body came as a form, and is none: send it with `Content-Type: application/json` or `text/plain`."
        )
    parts = [Item(value, *content_type(request.parts.get(name, "")), request.work) for name, value in fields.items()]
    if len(parts) == 1:
        return _from_body(parts[0], request, most)
    return Items([_from_part(part, most) for part in parts], many=True)


def _from_body(item: Item, request: Request, most: int) -> Items:
    try:
        item = _parsed(item, most)
    except RequestError as error:
        if not may_be_grpc(item.value, request.headers):
            raise
        return _refused_by_grpc(error, V2Answer(request.request_id, grpc=True))
    value, work = item.value, item.work
    if is_json_lines(item.media_type):
        return _many(value, work, most, Lines())
    if is_v2(value, request.headers):
        return _from_v2(value, request, most)
    if isinstance(value, Mapping) and "instances" in value:
        if not isinstance(value["instances"], list):
            raise UnprocessableInstance("`instances` must be a list.")
        return _many(value["instances"], work, most, "predictions")
    value = _unwrap(value)
    if isinstance(value, list):
        return _many(value, work, most)
    return Items([replace(item, value=value, work=work.share())])


def _from_v2(body: Mapping[str, Any], request: Request, most: int) -> Items:
    grpc = is_grpc(body, request.headers)
    answer = V2Answer(given_id(body) or request.request_id, grpc)
    try:
        return _many(elements(body, grpc, most), request.work, most, answer)
    except RequestError as error:
        if not grpc:
            raise
        return _refused_by_grpc(error, answer)


def _refused_by_grpc(error: RequestError, answer: V2Answer) -> Items:
    """An error as an answer: TorchServe's gRPC endpoint looks at no status."""
    return Items([Item(error)], many=True, envelope=answer)


def _from_part(item: Item, most: int) -> Item:
    """One of several parts: what is wrong with it is told in its place."""
    try:
        item = _parsed(item, most)
    except RequestError as error:
        return Item(error)
    return replace(item, value=_unwrap(item.value), work=item.work.share())


def _many(values: list[Any], work: Work, most: int, envelope: str | V2Answer | Lines | None = None) -> Items:
    if len(values) > most:
        raise TooLarge(f"At most {most} instances fit in one request.")
    return Items([Item(_unwrap(value), work=work.share()) for value in values], many=True, envelope=envelope)


def _parsed(item: Item, most: int) -> Item:
    """The item with a JSON value where it is JSON that TorchServe left unread, and bytes where it is anything else."""
    value, media_type = item.value, item.media_type
    unread = item.charset != "utf-8" or is_json(media_type) or is_json_lines(media_type)
    if isinstance(value, str) and media_type.startswith("text/") and unread:
        # TorchServe reads every text as UTF-8, and some in other charsets, such as UTF-16LE, happen to be that too.
        value = value.encode("utf-8")
    if not isinstance(value, (bytes, bytearray)):
        return item
    if is_json_lines(media_type):
        return replace(item, value=parsed_lines(value, item.work, most))
    if is_json(media_type):
        return replace(item, value=parsed(value, item.work))
    if media_type in UNTYPED and looks_like_json(value):
        return _json_without_type(item)
    return replace(item, value=bytes(value))


def _json_without_type(item: Item) -> Item:
    try:
        return replace(item, value=parsed(item.value, item.work), media_type=JSON_TYPE)
    except MalformedRequest:
        raise UnsupportedMedia(
            "The body looks like JSON but is not valid, and has no Content-Type: send application/json or text/plain."
        ) from None


def _unwrap(value: Any) -> Any:
    """{"text": x} -> x; other values stay as they are, so that `decode` judges each in its place."""
    if isinstance(value, Mapping):
        for key in KEYS:
            if key in value:
                return value[key]
    return value
