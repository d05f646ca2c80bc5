"""Bodies and forms -> requests as TorchServe's frontend hands them to a worker, under right and absurd headers.

The frontend writes names and headers from Java's strings, so that they are always UTF-8; a body may be any bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from benchmarks.hostile.case import canary
from benchmarks.hostile.contract import FIELD_NAME, REFUSED_CHARSETS, Body
from marsmith.torchserve.worker import WorkerRequest

# Content-Types with what they mean: media type and charset.
JSON_TYPES = (
    ("application/json", "application/json", "utf-8"),
    ("application/json; charset=utf-8", "application/json", "utf-8"),
    ("Application/JSON", "application/json", "utf-8"),
    ("application/json;charset=klingon", "application/json", "klingon"),
    ("application/vnd.api+json", "application/vnd.api+json", "utf-8"),
)
TEXT_TYPES = (
    ("text/plain", "text/plain", "utf-8"),
    ("TEXT/Plain; charset=UTF-8; x=y", "text/plain", "utf-8"),
    ("text/html", "text/html", "utf-8"),
)
BINARY_TYPES = (
    ("", "", "utf-8"),
    ("application/octet-stream", "application/octet-stream", "utf-8"),
    ("application/xml", "application/xml", "utf-8"),
)
IMAGE_TYPES = (("image/jpeg", "image/jpeg", "utf-8"), ("IMAGE/x-anything", "image/x-anything", "utf-8"))
OTHER_TYPES = (("audio/mpeg", "audio/mpeg", "utf-8"), ("video/mp4", "video/mp4", "utf-8"))
# What RFC 2045 makes no media type is read as text/plain, as Python's email package does.
ABSURD_TYPES = (
    ("é\x00\x07", "text/plain", "utf-8"),
    (";;;;=", "text/plain", "utf-8"),
    ("a/b/c", "text/plain", "utf-8"),
    ("/", "/", "utf-8"),
    # Longer than any real header, and taken for none.
    ("x" * 50_000, "application/octet-stream", "utf-8"),
    ("*/*; q=0.5, */*", "*/*", "utf-8"),
    ("application/octet-stream; charset*=utf-8''%FF", "application/octet-stream", "utf-8"),
    ("application/octet-stream; charset*0*=a; charset*=b", "application/octet-stream", ""),
    ("application/octet-stream; charset*=b; charset*1=a", "application/octet-stream", ""),
    ("application/octet-stream; charset*=\x00''a", "application/octet-stream", ""),
    (f"application/octet-stream; charset*{'9' * 5000}=a", "application/octet-stream", ""),
    ("application/octet-stream\r\nX-Evil: 1", "application/octet-stream\r\nx-evil: 1", "utf-8"),
    ("application/octet-stream; " + "a=b;" * 2000, "application/octet-stream", "utf-8"),
    ('application/octet-stream; charset="utf-8', "application/octet-stream", ""),
)
CHARSETS = (
    "utf-8",
    "utf8",
    "utf-16",
    "utf-16le",
    "utf-16-be",
    "utf-32",
    "iso-8859-1",
    "latin1",
    "windows-1252",
    "ascii",
)
HEADER_NAMES = ("Content-Type", "content-type", "CONTENT-TYPE", "cOnTeNt-tYpE")
URLENCODED = "application/x-www-form-urlencoded"
FORM_TYPES = ("multipart/form-data; boundary=x", "Multipart/Form-Data", URLENCODED)
FIELDS = ("data", "body", "text", "instances", "", "file", "0", "body ", "\x00", "é", "request_id", "content-type")

Type = tuple[str, str, str]


def typed(rng: Random, data: bytes, types: Sequence[Type]) -> tuple[str, Body]:
    """The data under one of these Content-Types: the header, and what it means."""
    header, media, charset = rng.choice(types)
    return header, Body(data, media, charset)


def in_charset(rng: Random, text: str) -> tuple[str, Body]:
    """The text in a charset that can write it, and under that charset's name; or under a name that nobody reads."""
    media = rng.choice(("text/plain", "application/octet-stream"))
    if rng.random() < 1 / 4:
        charset = rng.choice([name for name in REFUSED_CHARSETS if name])
        return f"{media}; charset={charset}", Body(text.encode("utf-8", "replace"), media, charset)
    charset = rng.choice(CHARSETS)
    try:
        data = text.encode(charset)
    except UnicodeEncodeError:
        charset, data = "utf-8", text.encode("utf-8", "surrogatepass")
    return f"{media}; charset={charset.upper()}", Body(data, media, charset)


def raw(rng: Random, header: str, body: Body) -> WorkerRequest:
    """A raw body. The frontend gives the part the header's media type without parameters."""
    headers = _more_headers(rng)
    if header:
        headers[rng.choice(HEADER_NAMES)] = header
    return WorkerRequest([("body", header.partition(";")[0], body.data)], headers)


def grpc(body: Body) -> WorkerRequest:
    """A request of the gRPC endpoint."""
    return WorkerRequest([("body", "application/json", body.data)])


def form(rng: Random, parts: Sequence[tuple[str, Body]]) -> tuple[WorkerRequest, list[Body], bool]:
    """Fields under their own Content-Types (the header of each, and its body) as a request.

    Also the bodies that the handler sees, and whether the names are those of a form.

    Of two fields of one name the last is seen, in the place of the first.
    """
    names = rng.sample((*FIELDS, canary(rng)), k=min(len(parts), len(FIELDS)))
    if len(names) > 1 and rng.random() < 1 / 20:
        names[-1] = names[0]
    fields = list(zip(names, parts, strict=False))
    form_type = rng.choice(FORM_TYPES)
    headers = _more_headers(rng) | {rng.choice(HEADER_NAMES[:1] + HEADER_NAMES[2:]): form_type}
    request = WorkerRequest([(name, header, body.data) for name, (header, body) in fields], headers)
    sound = form_type != URLENCODED or all(FIELD_NAME.fullmatch(name) for name in names)
    return request, list({name: body for name, (_, body) in fields}.values()), sound


def _more_headers(rng: Random) -> dict[str, str]:
    """What else a client may send; none of it has a meaning."""
    if rng.random() < 4 / 5:
        return {"Accept": "*/*"}
    return rng.choice(
        (
            {"X-Id": canary(rng), "x-id": "2"},
            {"Accept-Charset": "klingon", "Accept-Encoding": "gzip"},
            {"ö": "😀" * 9, "X-Request-Id": canary(rng)},
            {"Content-Length": "-1", "Transfer-Encoding": "chunked", "explain": "False"},
            {f"X-{number}": "y" * 90 for number in range(200)},
            {"Cookie": canary(rng) * 2000},
        )
    )
