"""A handler inside one of TorchServe's service envelopes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ts.protocol.otf_message_handler import _retrieve_inference_msg
from ts.service import Service
from ts.torch_handler.request_envelope.base import BaseEnvelope

from tests.handlers.shouter import Shouter, make_root
from tests.handlers.worker import Answer, Post, Socket, decode_response, encode_batch

MANIFEST = {"model": {"modelName": "shouter", "modelVersion": "1.0"}}


class Wrapped:
    """A handler inside one of TorchServe's envelopes, inside TorchServe's service."""

    def __init__(self, envelope: type[BaseEnvelope], handler: Any, root: Path, config: Any = None) -> None:
        entry_point = envelope(handler.handle).handle
        self.service = Service("shouter", str(root), MANIFEST, entry_point, None, 8)
        self.service.set_cl_socket(None)
        self.service.context.model_yaml_config = config
        self.service.context.metrics = Quiet()
        handler.initialize(self.service.context)

    def ask(self, *posts: Post) -> list[Answer]:
        """One batch. TorchServe's own 503 for all of it has one frame without content types."""
        batch = _retrieve_inference_msg(Socket(encode_batch(posts)))
        code, message, answers = decode_response(self.service.predict(batch))
        assert (code, message) == (200, "Prediction success")
        return answers


class Quiet:
    """No metrics."""

    model_name = "shouter"
    request_ids = None

    def add_time(self, *_: Any) -> None:
        """What the service counts itself."""

    def get_metric(self, _: str) -> "Quiet":
        return self

    def add_or_update(self, *_: Any) -> None:
        """What the handler counts."""


def shouting(tmp_path: Path, envelope: type[BaseEnvelope], **options: int) -> Wrapped:
    return Wrapped(envelope, Shouter(), make_root(tmp_path, **options))


def shouts(*texts: str) -> list[dict[str, str]]:
    return [{"shout": text.upper()} for text in texts]


def v1(*instances: Any) -> Post:
    return Post.json({"instances": list(instances)})


def v2(*texts: Any, **keys: Any) -> Post:
    tensors = [{"name": f"t{n}", "shape": [1], "datatype": "BYTES", "data": [text]} for n, text in enumerate(texts)]
    return Post.json({"inputs": tensors, **keys})


def outputs(answer: Answer) -> list[Any]:
    """The answers in the tensors, one in each, after a look at what is around them."""
    value = answer.value
    assert (value["model_name"], value["model_version"]) == ("shouter", "1.0")
    assert all(output["datatype"] == "BYTES" and output["shape"] == [1] for output in value["outputs"])
    assert [output["name"] for output in value["outputs"]] == [f"t{n}" for n in range(len(value["outputs"]))]
    return [json.loads(data) for output in value["outputs"] for data in output["data"]]


def codes(values: Sequence[Any]) -> list[int]:
    return [value["error"]["code"] if "error" in value else 200 for value in values]
