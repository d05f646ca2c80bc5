"""KServe's v2 protocol, also called Open Inference Protocol: tensors of strings in, one tensor of JSON strings out.

The specification is inference_rest.md of github.com/kserve/open-inference-protocol. TorchServe's gRPC endpoint of the
same protocol hands requests over as this JSON too. What differs there: `model_name` is in the body, there are no
headers, and BYTES are base64. It takes the answer apart without a look at its status, and where `id`, `model_name`,
`model_version` or `outputs` are missing, the whole batch fails; so errors are wrapped like results.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from handlers.errors import MalformedRequest, TooLarge, UnprocessableInstance
from handlers.settings import MAX_INSTANCES

OUTPUT = "predictions"
# An id is repeated in the answer, which must stay small enough for TorchServe.
MAX_ID_CHARACTERS = 1000
# The product of millions of sizes would take minutes.
MAX_DIMENSIONS = 8
# In a shape: as many as there are.
ANY = -1


@dataclass(frozen=True, slots=True)
class V2Answer:
    """What an answer repeats of its request: the id, and whether it goes back by gRPC."""

    request_id: str
    grpc: bool = False

    def wrap(self, values: Sequence[object], name: str, version: str) -> dict[str, object]:
        """The response object around plain JSON values, one for each instance."""
        # The gRPC endpoint writes each value out as JSON itself.
        data = list(values) if self.grpc else [json.dumps(value, ensure_ascii=False) for value in values]
        return {
            "model_name": name,
            "model_version": version,
            "id": self.request_id,
            "outputs": [{"name": OUTPUT, "shape": [len(data)], "datatype": "BYTES", "data": data}],
        }


def is_v2(body: Any, headers: Mapping[str, str]) -> bool:
    """Whether the body is a v2 request, and not the Hugging Face form, whose `inputs` are the instances themselves."""
    if not isinstance(body, Mapping) or not isinstance(body.get("inputs"), list):
        return False
    return is_grpc(body, headers) or any(
        isinstance(tensor, Mapping) and ("datatype" in tensor or "shape" in tensor) for tensor in body["inputs"]
    )


def is_grpc(body: Mapping[str, Any], headers: Mapping[str, str]) -> bool:
    """Whether TorchServe's gRPC endpoint made this body: over HTTP, TorchServe always hands headers over."""
    return "model_name" in body and not headers


def may_be_grpc(body: Any, headers: Mapping[str, str]) -> bool:
    """The same of a body that was not parsed."""
    return isinstance(body, (bytes, bytearray)) and not headers and b'"model_name"' in body


def given_id(body: Mapping[str, Any]) -> str:
    """The id that the client gave the request; empty where there is none that can be repeated."""
    given = body.get("id")
    return given if isinstance(given, str) and len(given) <= MAX_ID_CHARACTERS else ""


def elements(body: Mapping[str, Any], grpc: bool, most: int = MAX_INSTANCES) -> list[Any]:
    """The elements of all tensors, in order; by gRPC they are bytes.

    Raises UnprocessableInstance for what is no v2 request of BYTES tensors, or asks for another output than ours, and
    TooLarge for more than `most` elements, before anything is made of them.
    """
    outputs = body.get("outputs") or []
    if not isinstance(outputs, list) or any(
        not isinstance(output, Mapping) or output.get("name") != OUTPUT for output in outputs
    ):
        raise UnprocessableInstance(f"The only output of this model is `{OUTPUT}`.")
    if body.get("id") and not given_id(body):
        raise UnprocessableInstance(f"The `id` must be a string of at most {MAX_ID_CHARACTERS} characters.")
    found: list[Any] = []
    for tensor in body["inputs"]:
        found += _elements_of(tensor, most - len(found), most)
    return [_bytes(element) for element in found] if grpc else found


def _elements_of(tensor: Any, left: int, most: int) -> list[Any]:
    if not isinstance(tensor, Mapping) or tensor.get("datatype") != "BYTES":
        raise UnprocessableInstance("Every tensor of a v2 request must have the datatype BYTES.")
    data = tensor.get("data")
    if isinstance(data, str):  # as the examples of TorchServe and KServe have it for a single element
        data = [data]
    if not isinstance(data, list):
        raise UnprocessableInstance("The `data` of a v2 tensor must be a list.")
    shape = _shape(tensor.get("shape"))
    flat: list[Any] = []
    for element in _flatten(data, most):
        if len(flat) == left:
            raise TooLarge(f"At most {most} instances fit in one request.")
        flat.append(element)
    if not _fits(shape, len(flat)):
        raise UnprocessableInstance(f"The shape of a v2 tensor does not fit its data of {len(flat)} elements.")
    return flat


def _shape(shape: Any) -> list[int]:
    """The sizes of a tensor. -1 stands for any size, and is all that there is for a shape that was left out."""
    if shape is None:
        return [ANY]
    sizes = [shape] if type(shape) is int else shape
    if (
        not isinstance(sizes, list)
        or len(sizes) > MAX_DIMENSIONS
        or any(type(size) is not int or size < ANY for size in sizes)
    ):
        raise UnprocessableInstance(f"The `shape` of a v2 tensor must be at most {MAX_DIMENSIONS} whole numbers.")
    return sizes


def _fits(shape: list[int], count: int) -> bool:
    known = math.prod(size for size in shape if size != ANY)
    if ANY not in shape:
        return known == count
    return count % known == 0 if known else count == 0


def _flatten(data: list[Any], most: int) -> Iterator[Any]:
    """The elements of nested lists in row-major order, however deep. Raises TooLarge where nearly all are lists."""
    waiting = [iter(data)]
    lists_left = (most + 1) * MAX_DIMENSIONS
    while waiting:
        for element in waiting[-1]:
            if isinstance(element, list):
                lists_left -= 1
                if lists_left < 0:
                    raise TooLarge(f"At most {most} instances fit in one request.")
                waiting.append(iter(element))
                break
            yield element
        else:
            waiting.pop()


def _bytes(element: Any) -> bytes:
    try:
        return base64.b64decode(element, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise MalformedRequest("An element of a BYTES tensor is not valid base64.") from None
