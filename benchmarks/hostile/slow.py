"""Requests that ask for much work or memory, near what one may cost and far beyond, each made once a process.

What such a request is answered depends on prices; what must hold is that its neighbours are answered rightly and soon.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from random import Random

from benchmarks.hostile import slow_avif, slow_jpeg, slow_png, slow_tiff, slow_webp
from benchmarks.hostile.case import MALFORMED, MARK, OK, TOO_LARGE, UNPROCESSABLE, UNSUPPORTED, Expected, Shape
from marsmith.torchserve.worker import WorkerRequest

# Statuses of a right answer, whatever the model: what matters here is what becomes of the neighbours.
ANY_RIGHT = Expected(frozenset({OK, MALFORMED, TOO_LARGE, UNSUPPORTED, UNPROCESSABLE}), Shape.ANY)
IMAGES: Mapping[str, Callable[[int], bytes]] = {
    **slow_jpeg.KINDS, **slow_png.KINDS, **slow_tiff.KINDS, **slow_avif.KINDS, **slow_webp.KINDS
}  # fmt: skip
# What it takes long to make: prices.py measures these too.
TOO_SLOW_TO_MAKE = {
    "PNG in pieces", "PNG bomb", "PNG of noise", "PNG of the dearest filter", "TIFF, LZMA noise", "AVIF of noise",
    "AVIF of noise, 4:4:4", "AVIF", "PNG wide column", "AVIF of alpha", "WebP, lossy noise",
    "JPEG of progressive noise",
}  # fmt: skip
# Of makers that take a side: pixels, fewer of what hardly packs. Of those that take a count: bytes of the whole file.
SIDES, NOISY_SIDES = (1000, 2500, 5000), (300, 600, 1000)
TARGET_BYTES = (30_000, 400_000, 3_000_000)
PROBE, NOISY_BYTES = 100, 4_000
JSON, TEXT = "application/json", "text/plain"
LIST_ELEMENTS = 13_000_000
TEXT_BYTES = 1_000_000
TEXTS = 26
FIELDS = 50_000
LINES = 1_000_000
UNITS = ("a", "a ", "word ", "é", "😀", "@a ", "http://a.b ", "<s>", "\u0301", "!", "1", "▁", "ﷺ", "\u200b", " #x")


@dataclass(frozen=True, slots=True)
class Slow:
    """A kind of slow request, and the request."""

    kind: str
    request: WorkerRequest


def slow_request(rng: Random, task: str) -> Slow:
    """Any kind of slow request to the model of this task."""
    if task == "food" and rng.random() < 4 / 5:
        kind = rng.choice([name for name in IMAGES if name not in TOO_SLOW_TO_MAKE])
        return Slow(kind, WorkerRequest.raw(_image(kind, rng.randrange(len(TARGET_BYTES))), "application/octet-stream"))
    kind = rng.choice(list(BODIES))
    return Slow(kind, _request(kind))


def takes_a_side(make: Callable[[int], bytes]) -> bool:
    """Whether a maker takes the side of a picture, not a count of something."""
    names = getattr(make, "__wrapped__", make).__code__.co_varnames
    return names[:1] in {("side",), ("height",)}


@cache
def _image(kind: str, step: int) -> bytes:
    make = IMAGES[kind]
    size = len(make(PROBE))
    if takes_a_side(make):
        return make((NOISY_SIDES if size > NOISY_BYTES else SIDES)[step])
    each = max(1, (len(make(2 * PROBE)) - size) // PROBE)
    return make(max(1, TARGET_BYTES[step] // each))


@cache
def _request(kind: str) -> WorkerRequest:
    return BODIES[kind]()


def _raw(body: bytes, media_type: str = JSON, **headers: str) -> WorkerRequest:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return WorkerRequest([("body", media_type, body)], {"Content-Type": media_type, **names})


def _text(unit: str) -> WorkerRequest:
    return _raw(_repeated(unit).encode(), TEXT)


def _tensor(data: bytes) -> bytes:
    return b'{"inputs": [{"name": "x", "shape": [%d], "datatype": "BYTES", "data": %s}]}' % (LIST_ELEMENTS, data)


def _repeated(unit: str, size: int = TEXT_BYTES) -> str:
    return f"{MARK}slow " + unit * (size // len(unit.encode()))


def _form(count: int, media_type: str) -> WorkerRequest:
    parts = [(f"f{number}", "", b"x") for number in range(count)]
    return WorkerRequest(parts, {"Content-Type": media_type})


@cache
def _ones() -> bytes:
    return b"[" + b"1," * (LIST_ELEMENTS - 1) + b"1]"


BODIES: dict[str, Callable[[], WorkerRequest]] = {
    "list of numbers": lambda: _raw(_ones()),
    "instances of numbers": lambda: _raw(b'{"instances": ' + _ones() + b"}"),
    "tensor of numbers": lambda: _raw(_tensor(_ones())),
    "list of texts": lambda: _raw(b"[" + b'"a",' * 6_000_000 + b'"a"]'),
    "list of lists": lambda: _raw(b"[" + b"[]," * 8_000_000 + b"[]]"),
    "list of objects": lambda: _raw(b"[" + b"{}," * 8_000_000 + b"{}]"),
    "tensor of lists": lambda: _raw(_tensor(b"[" + b"[1]," * 6_000_000 + b"[1]]")),
    "object of names": lambda: _raw(
        b"{" + b",".join(b'"%d":1' % number for number in range(1_000_000)) + b',"text":"x"}'
    ),
    "long numbers": lambda: _raw(b"[" + b"9" * 4000 + b"," + b"1" * 20_000_000 + b"]"),
    "texts of a megabyte": lambda: _raw(json.dumps([_repeated("a ")] * TEXTS).encode()),
    "texts of characters": lambda: _raw(json.dumps([_repeated("😀")] * TEXTS, ensure_ascii=False).encode()),
    "escaped text": lambda: _raw(json.dumps({"text": _repeated("é", 2 * TEXT_BYTES)}).encode()),
    "JSON lines": lambda: _raw(b'"x"\n' * LINES, "application/jsonlines"),
    "JSON lines of nothing": lambda: _raw(b"\n" * LINES, "application/jsonlines"),
    "form of fields": lambda: _form(FIELDS, "multipart/form-data; boundary=x"),
    "urlencoded form of fields": lambda: _form(FIELDS, "application/x-www-form-urlencoded"),
    "packed body": lambda: _raw(zlib.compress(bytes(100_000_000), 9), TEXT, Content_Encoding="deflate"),
    "packed list": lambda: _raw(zlib.compress(_ones(), 9), JSON, Content_Encoding="deflate"),
    "base64 of rubbish": lambda: _raw(b'"' + b"A" * 25_000_000 + b'"'),
    "base64 of spaces": lambda: _raw(b'"' + b"A " * 12_000_000 + b'"'),
    **{f"text of {unit!a}": partial(_text, unit) for unit in UNITS},
}
