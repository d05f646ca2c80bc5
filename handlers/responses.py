"""Results and errors -> bodies, status and content type, so that nothing can hurt the worker.

TorchServe encodes answers outside its try block: a status that is no int, a non-ASCII reason phrase or a value that
json.dumps cannot take would end the worker and every request in it. So everything is made bytes here, before.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from handlers.errors import RequestError

PHRASES = {status.value: status.phrase for status in HTTPStatus}
JSON = "application/json; charset=utf-8"
JSON_LINES = "application/jsonlines; charset=utf-8"
# TorchServe drops the worker's connection when one answer passes max_response_size (config.properties).
MAX_RESPONSE_BYTES = 6_000_000


class ResponseTooLarge(RequestError):
    """The answer would not pass through TorchServe."""

    status = 413
    type = "too_large"


@dataclass(frozen=True, slots=True)
class Response:
    """One answer, ready for the wire."""

    status: int
    body: bytes
    media_type: str = JSON

    @classmethod
    def ok(cls, value: object) -> Response:
        """Status 200 with `value` as JSON. Raises what json.dumps raises for a value that is not JSON."""
        return cls(200, checked(_dumps(value)))

    @classmethod
    def lines(cls, values: Sequence[object]) -> Response:
        """Status 200 with each value as a line of JSON. Raises what `ok` raises."""
        return cls(200, checked(b"".join(_dumps(value) + b"\n" for value in values)), JSON_LINES)

    @classmethod
    def error(cls, status: int, body: object) -> Response:
        """An error's status with what it says as JSON."""
        return cls(status, _dumps(body))

    def send(self, context: Any, index: int) -> bytes:
        """Set status and content type of the request at `index` and return the body."""
        context.set_response_status(self.status, PHRASES.get(self.status, "Error"), index)
        context.set_response_content_type(index, self.media_type)
        return self.body


def checked(body: bytes) -> bytes:
    """The body, where it passes through TorchServe. Raises ResponseTooLarge."""
    if len(body) > MAX_RESPONSE_BYTES:
        raise ResponseTooLarge("The answer is too large. Send fewer instances in one request.")
    return body


def plain(value: object) -> Any:
    """`value` as JSON types alone. Raises what json.dumps raises for a value that is not JSON, NaN included."""
    return json.loads(_dumps(value))


def _dumps(value: object) -> bytes:
    # surrogatepass has no place here: a lone surrogate in a label is replaced, not fatal.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain).encode("utf-8", "replace")


def _plain(value: object) -> object:
    if hasattr(value, "tolist"):  # numpy's scalars and arrays, and torch's tensors
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
