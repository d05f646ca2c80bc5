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
| a form (multipart or urlencoded)                        | one for each field                           |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any

from handlers.errors import MalformedRequest, UnprocessableInstance

KEYS = ("text", "data", "inputs", "b64")


@dataclass(frozen=True, slots=True)
class Request:
    """One request: TorchServe's fields, the headers by lower-case name, and the id that the logs know it by."""

    fields: Mapping[str, Any]
    headers: Mapping[str, str]
    request_id: str

    @classmethod
    def of(cls, fields: Mapping[str, Any], context: Any, index: int) -> Request:
        """The request at `index` of the batch. TorchServe mixes part headers (dicts) into the request's: skip them."""
        headers = context.get_all_request_header(index)
        plain = {str(name).lower(): value for name, value in headers.items() if isinstance(value, str)}
        return cls(fields, plain, context.get_request_id(index) or "")


@dataclass(frozen=True, slots=True)
class Item:
    """One instance as it came: str, bytes or a parsed JSON value, with the media type it was sent under, if any."""

    value: Any
    media_type: str = ""
    charset: str = "utf-8"


@dataclass(frozen=True, slots=True)
class Items:
    """A request's instances. `many`: answer with a list. `envelope`: the key that the list is wrapped in."""

    items: list[Item]
    many: bool = False
    envelope: str | None = None


def items(request: Request) -> Items:
    """Find the instances of a request.

    Raises MalformedRequest for a body that is not what its Content-Type says, UnprocessableInstance where there is
    nothing to predict.
    """
    media_type, charset = _content_type(request.headers.get("content-type", ""))
    fields = request.fields
    if "body" in fields:
        return _from_body(fields["body"], media_type, charset)
    if not fields:
        # TorchServe drops form data without a "=", which is what `curl -d 'some text'` sends.
        raise UnprocessableInstance("The request has no data: send it as application/json or text/plain.")
    if len(fields) == 1:
        (value,) = fields.values()
        return _from_body(value, "", charset)
    return Items([Item(_unwrap(value)) for value in fields.values()], many=True)


def _content_type(header: str) -> tuple[str, str]:
    message = Message()
    message["content-type"] = header or "application/octet-stream"
    return (message.get_content_type() if header else ""), message.get_content_charset("utf-8")


def _from_body(value: Any, media_type: str, charset: str) -> Items:
    if isinstance(value, (bytes, bytearray)):
        if media_type != "application/json" and not media_type.endswith("+json"):
            return Items([Item(bytes(value), media_type, charset)])
        value = _json(bytes(value))
    if isinstance(value, list):
        return Items([Item(_unwrap(element)) for element in value], many=True)
    if isinstance(value, Mapping) and "instances" in value:
        instances = value["instances"]
        if not isinstance(instances, list):
            raise UnprocessableInstance("`instances` must be a list.")
        return Items([Item(_unwrap(element)) for element in instances], many=True, envelope="predictions")
    value = _unwrap(value)
    if isinstance(value, list):
        return Items([Item(_unwrap(element)) for element in value], many=True)
    return Items([Item(value, media_type, charset)])


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise MalformedRequest("The body is not valid JSON.") from None


def _unwrap(value: Any) -> Any:
    """{"text": x} -> x; other values stay as they are, so that `decode` judges each in its place."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Mapping):
        for key in KEYS:
            if key in value:
                return value[key]
    return value
