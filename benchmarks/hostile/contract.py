"""What the README's section "Requests and answers" promises, written down a second time: request -> right answer.

The handlers are not asked. Where a JSON body is readable at all is for Python's parser to say, as it is for them.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.hostile.case import MALFORMED, OK, TOO_LARGE, UNPROCESSABLE, UNSUPPORTED, Expected, Outcome, Shape

KEYS = ("text", "data", "inputs", "b64")
MAX_INSTANCES = 64
MAX_TEXT_BYTES = 1_048_576
MAX_IMAGE_BYTES = 20_000_000
MAX_ID_CHARACTERS = 1000
MAX_DIMENSIONS = 8
INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Zs"}
# Charsets that the server does not read, beside those that Python does not know.
REFUSED_CHARSETS = ("rot13", "idna", "utf-7", "zlib", "klingon", "iso-8859-99", "")
MAX_DIGITS = 309
JSON_TYPES = re.compile(r"(application|text)/(x-)?json|[^/]+/[^/]+\+json")
UNTYPED = ("", "application/octet-stream", "binary/octet-stream")
TABLES = ("text/csv", "text/tab-separated-values")
LIKE_JSON = re.compile(rb'(\xef\xbb\xbf)?\s*(\{\s*"|\[\s*[{"])')
# Of the fields of a urlencoded form; any other body was sent as one by mistake.
FIELD_NAME = re.compile(r"[\w.:\[\]-]{1,100}")
BASE64_TEXT = re.compile(rb"data:.*|[A-Za-z0-9+/=\s]+", re.DOTALL)

Known = Mapping[str | bytes, Outcome]


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes as a client sends them, with what their Content-Type means."""

    data: bytes
    media: str = ""
    charset: str = "utf-8"

    @property
    def is_json(self) -> bool:
        """Whether the media type is JSON's."""
        return JSON_TYPES.fullmatch(self.media) is not None

    @property
    def is_like_json(self) -> bool:
        """Whether it was plainly meant as JSON, although no type says so."""
        return self.media in UNTYPED and LIKE_JSON.match(self.data) is not None


class Rules(Protocol):
    """What a model reads."""

    def value(self, value: Any, known: Known) -> Outcome:
        """The outcome of one JSON value."""

    def raw(self, body: Body, known: Known) -> Outcome:
        """The outcome of one body that is no JSON."""


class TextRules:
    """The sentiment model's."""

    def value(self, value: Any, known: Known) -> Outcome:
        """A string that is no more than it may be and has something to see."""
        if not isinstance(value, str):
            return Outcome.of(UNPROCESSABLE)
        if value in known:
            return known[value]
        try:
            size = len(value.encode("utf-8"))
        except UnicodeEncodeError:
            return Outcome.of(MALFORMED)
        if size > MAX_TEXT_BYTES:
            return Outcome.of(TOO_LARGE)
        seen = any(unicodedata.category(character) not in INVISIBLE for character in value)
        return Outcome.of(OK if seen else UNPROCESSABLE)

    def raw(self, body: Body, known: Known) -> Outcome:
        """Bytes in a charset that is read."""
        read = body.media in UNTYPED or body.media.startswith("text/")
        if not read or body.media in TABLES:
            return Outcome.of(UNSUPPORTED)
        if len(body.data) > MAX_TEXT_BYTES:
            return Outcome.of(TOO_LARGE)
        if body.charset in REFUSED_CHARSETS:
            # Of nothing, both that it is nothing and that its charset is unknown are right.
            return Outcome.of(UNSUPPORTED, *([] if body.data else [UNPROCESSABLE]))
        try:
            return self.value(body.data.decode(body.charset), known)
        except UnicodeError:
            return Outcome.of(MALFORMED)


class ImageRules:
    """The food model's: a file that is not known is no picture."""

    def value(self, value: Any, known: Known) -> Outcome:
        """Base64 or a data URL."""
        if not isinstance(value, str):
            return Outcome.of(UNPROCESSABLE)
        if value.startswith("data:"):
            header, _, value = value.partition(",")
            if not header.endswith(";base64"):
                return Outcome.of(MALFORMED)
        try:
            return self._file(base64.b64decode("".join(value.split()), validate=True), known)
        except (binascii.Error, ValueError):
            return Outcome.of(MALFORMED)

    def raw(self, body: Body, known: Known) -> Outcome:
        """A file, or base64 where no type is given."""
        if body.media not in (*UNTYPED, "application/x-image") and not body.media.startswith("image/"):
            return Outcome.of(UNSUPPORTED)
        if not body.media and BASE64_TEXT.fullmatch(body.data):
            return self.value(body.data.decode("latin-1"), known)
        return self._file(body.data, known)

    def _file(self, data: bytes, known: Known) -> Outcome:
        if not data:
            return Outcome.of(UNPROCESSABLE)
        if len(data) > MAX_IMAGE_BYTES:
            return Outcome.of(TOO_LARGE)
        return known.get(data, Outcome.of(MALFORMED))


@dataclass(frozen=True, slots=True)
class Contract:
    """The right answer to any request, for a model with `rules`; `known` are instances whose outcome is known."""

    rules: Rules
    known: Known = field(default_factory=dict)

    def body(self, body: Body, *, headers: bool = True) -> Expected:
        """A raw body, or a form of one field."""
        if not body.is_json and not body.is_like_json:
            return Expected.one(self.rules.raw(body, self.known))
        try:
            return self.document(_loaded(body.data), headers=headers)
        except (ValueError, RecursionError):
            return Expected.refusal(MALFORMED if body.is_json else UNSUPPORTED)

    def form(self, parts: Sequence[Body], *, sound: bool = True) -> Expected:
        """A form of no field, of one or of several; one that is not `sound` was plainly no form."""
        if not parts:
            return Expected.refusal(UNPROCESSABLE)
        if not sound:
            return Expected.refusal(UNSUPPORTED)
        if len(parts) == 1:
            return self.body(parts[0])
        return self._many(tuple(self._part(part) for part in parts), Shape.LIST)

    def document(self, value: Any, *, headers: bool = True) -> Expected:
        """A JSON body; TorchServe's gRPC endpoint sends no headers."""
        if isinstance(value, dict) and isinstance(value.get("inputs"), list):
            grpc = "model_name" in value and not headers
            if grpc or any(isinstance(one, dict) and ("datatype" in one or "shape" in one) for one in value["inputs"]):
                return self._tensors(value, grpc=grpc)
        if isinstance(value, dict) and "instances" in value:
            if not isinstance(value["instances"], list):
                return Expected.refusal(UNPROCESSABLE)
            return self._many(self._each(value["instances"]), Shape.PREDICTIONS)
        value = _unwrapped(value)
        if isinstance(value, list):
            return self._many(self._each(value), Shape.LIST)
        return Expected.one(self.rules.value(value, self.known))

    def _part(self, part: Body) -> Outcome:
        if not part.is_json and not part.is_like_json:
            return self.rules.raw(part, self.known)
        try:
            return self.rules.value(_unwrapped(_loaded(part.data)), self.known)
        except (ValueError, RecursionError):
            return Outcome.of(MALFORMED if part.is_json else UNSUPPORTED)

    def _each(self, values: Sequence[Any]) -> tuple[Outcome, ...]:
        # A list that is too long is refused whole.
        return tuple(self.rules.value(_unwrapped(value), self.known) for value in values[: MAX_INSTANCES + 1])

    def _many(self, outcomes: tuple[Outcome, ...], shape: Shape, request_id: str = "") -> Expected:
        wrapped = Shape.GRPC if shape is Shape.GRPC else Shape.ONE
        if not outcomes:
            return Expected.refusal(UNPROCESSABLE, shape=wrapped)
        if len(outcomes) > MAX_INSTANCES:
            return Expected.refusal(TOO_LARGE, shape=wrapped)
        return Expected(frozenset({OK}), shape, outcomes, request_id)

    def _tensors(self, value: Mapping[str, Any], *, grpc: bool) -> Expected:
        shape = Shape.GRPC if grpc else Shape.V2
        given = value.get("id")
        usable = isinstance(given, str) and len(given) <= MAX_ID_CHARACTERS
        request_id = given if usable and isinstance(given, str) else ""
        elements = _elements(value["inputs"])
        if elements is None or not _asks_for_ours(value.get("outputs") or []) or (given and not usable):
            return self._refused(UNPROCESSABLE, grpc, request_id)
        if not grpc:
            return self._many(self._each(elements), shape, request_id)
        try:
            files = [base64.b64decode(element, validate=True) for element in elements]
        except (binascii.Error, TypeError, ValueError):
            return self._refused(MALFORMED, grpc, request_id)
        outcomes = tuple(self.rules.raw(Body(file), self.known) for file in files[: MAX_INSTANCES + 1])
        return self._many(outcomes, shape, request_id)

    def _refused(self, status: int, grpc: bool, request_id: str) -> Expected:
        """By gRPC, what is wrong with a request is its only element."""
        if not grpc:
            return Expected.refusal(status)
        return Expected(frozenset({OK}), Shape.GRPC, (Outcome.of(status),), request_id)


def _loaded(data: bytes) -> Any:
    return json.loads(data, parse_int=_integer)


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError("too many digits")
    return int(digits)


def _unwrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return next((value[key] for key in KEYS if key in value), value)
    return value


def _asks_for_ours(outputs: Any) -> bool:
    return isinstance(outputs, list) and all(isinstance(o, dict) and o.get("name") == "predictions" for o in outputs)


def _elements(tensors: Sequence[Any]) -> list[Any] | None:
    """The elements of v2 tensors; None where one of them is not as the protocol has it."""
    found: list[Any] = []
    for tensor in tensors:
        if not isinstance(tensor, dict) or tensor.get("datatype") != "BYTES":
            return None
        shape, data = tensor.get("shape"), tensor.get("data")
        shape = [shape] if type(shape) is int else [-1] if shape is None else shape
        data = [data] if isinstance(data, str) else data
        if not isinstance(data, list) or not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
            return None
        flat = _flat(data)
        if any(type(size) is not int or size < -1 for size in shape) or not _fits(shape, len(flat)):
            return None
        found += flat
    return found


def _fits(shape: Sequence[int], count: int) -> bool:
    """-1 stands for any size."""
    known = math.prod(size for size in shape if size != -1)
    if -1 not in shape:
        return known == count
    return count % known == 0 if known else count == 0


def _flat(data: list[Any]) -> list[Any]:
    flat: list[Any] = []
    stack = data[::-1]
    while stack:
        one = stack.pop()
        if isinstance(one, list):
            stack.extend(reversed(one))
        else:
            flat.append(one)
    return flat
