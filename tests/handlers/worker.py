"""TorchServe's own Python worker around a handler, without Java: bytes of the wire in, bytes of the wire out."""

import io
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from ts.metrics.metric_cache_yaml_impl import MetricsCacheYamlImpl
from ts.protocol.otf_message_handler import _retrieve_inference_msg
from ts.service import Service

METRICS_CONFIG = Path(__file__).parents[2] / "packaging/marsmith/torchserve/metrics.yaml"


@dataclass(frozen=True)
class Part:
    """One form field."""

    name: str
    value: bytes
    content_type: str = "text/plain"


@dataclass(frozen=True)
class Post:
    """A request as an HTTP client sends it: a body under a Content-Type, or the parts of a form."""

    body: bytes = b""
    content_type: str = ""
    parts: tuple[Part, ...] | None = None
    header: str = "Content-Type"
    explain: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, value: object) -> "Post":
        return cls(json.dumps(value).encode(), "application/json")

    @classmethod
    def form(cls, *parts: Part) -> "Post":
        return cls(parts=parts, content_type="multipart/form-data; boundary=x")

    def inputs(self) -> Sequence[Part]:
        """What TorchServe's frontend makes of it: a raw body is a part named `body`, its type without parameters."""
        if self.parts is not None:
            return self.parts
        return [Part("body", self.body, self.content_type.partition(";")[0].strip())]


def not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


@dataclass(frozen=True)
class Answer:
    """One response, as TorchServe's frontend decodes it."""

    request_id: str
    status: int
    phrase: str
    content_type: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        """The body, which must be strict JSON in UTF-8."""
        return json.loads(self.body.decode("utf-8"), parse_constant=not_json)

    @property
    def error(self) -> Any:
        """The error's object, after a look at whether it says the same as the status."""
        error = self.value["error"]
        assert error["code"] == self.status
        assert error["request_id"] == self.request_id
        return error


class Socket:
    """As much of a socket as TorchServe's decoder reads from."""

    def __init__(self, data: bytes) -> None:
        self.stream = io.BytesIO(data)

    def recv(self, size: int) -> bytes:
        return self.stream.read(size)


class Worker:
    """A handler inside the real `ts.service.Service`."""

    def __init__(self, handler: Any, root: Path, config: Mapping[str, Any] | None = None) -> None:
        """Load the handler from `root`, the directory into which TorchServe unpacked the archive."""
        metrics = MetricsCacheYamlImpl(str(METRICS_CONFIG))
        metrics.initialize_cache()
        metrics.model_name = "tiny"
        self.service = Service("tiny", str(root), {}, handler.handle, None, 8, metrics_cache=metrics)
        self.service.set_cl_socket(None)
        self.service.context.model_yaml_config = config
        handler.initialize(self.service.context)

    def predict(self, *posts: Post) -> list[Answer]:
        """One batch."""
        batch = _retrieve_inference_msg(Socket(encode_batch(posts)))
        code, message, answers = decode_response(self.service.predict(batch))
        assert (code, message) == (200, "Prediction success")
        assert [answer.request_id for answer in answers] == [request_id(index) for index in range(len(posts))]
        return answers


def request_id(index: int) -> str:
    return f"request-{index}"


def encode_batch(posts: Sequence[Post]) -> bytes:
    """The frame that TorchServe's frontend writes to the worker (org.pytorch.serve.archive's RequestEncoder)."""
    frame = bytearray()
    for index, post in enumerate(posts):
        frame += _sized(request_id(index).encode())
        headers = {post.header: post.content_type, "User-Agent": "test"} if post.content_type else {}
        headers |= post.headers
        if headers or post.explain:  # what comes by gRPC has none
            headers["explain"] = str(post.explain)
        for name, value in headers.items():
            frame += _sized(name.encode()) + _sized(value.encode())
        frame += struct.pack("!i", -1)
        for part in post.inputs():
            frame += _sized(part.name.encode()) + _sized(part.content_type.encode()) + _sized(part.value)
        frame += struct.pack("!i", -1)
    return bytes(frame + struct.pack("!i", -1))


def decode_response(frame: bytes) -> tuple[int, str, list[Answer]]:
    """Read the worker's frame by its lengths in bytes, as TorchServe's frontend does: nothing may be left over."""
    stream = io.BytesIO(frame)

    def number() -> int:
        return int(struct.unpack("!i", stream.read(4))[0])

    def text() -> str:
        return stream.read(number()).decode("utf-8")

    code, message = number(), text()
    answers = []
    while (length := number()) != -1:
        name = stream.read(length).decode()
        content_type, status, phrase = text(), number(), text()
        headers = {text(): text() for _ in range(number())}
        answers.append(Answer(name, status, phrase, content_type, headers, stream.read(number())))
    assert stream.read() == b""
    return code, message, answers


def _sized(data: bytes) -> bytes:
    return struct.pack("!i", len(data)) + data
