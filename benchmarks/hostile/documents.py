"""JSON documents: every form that the README knows, any other values, and bytes that hurt a parser."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from random import Random
from typing import Any

from benchmarks.hostile.case import canary
from benchmarks.hostile.contract import KEYS

NAMES = (*KEYS, "instances", "inputs", "data", "name", "shape", "datatype", "model_name", "id", "outputs", "__class__")
DATATYPES = ("BYTES", "FP32", "bytes", "", None, 5)
DEEP = 100_000
# Around Python's own limit of recursion it is the caller's depth that decides.
SHALLOW, EDGE = 150, (900, 1100)
SIZES = (0, 1, 2, 3, 4, 5, 8)
LIST_SIZES = (0, 1, 63, 64, 65, 66, 1000, 5000)
MOST_FLIPS = 8


def whole(rng: Random, values: Sequence[Any]) -> Any:
    """The values as a client may rightly send them; of a form that takes one value, the first."""
    key = rng.choice(KEYS)
    each = [rng.choice((value, {rng.choice(KEYS): value})) for value in values]
    forms: list[Any] = [each, {key: each}, {"instances": each}, {"instances": each, "parameters": {"a": None}}]
    if values:
        forms += [values[0], {key: values[0]}, {key: values[0], "extra": [1, {}], canary(rng): None}]
    if values and rng.random() < 1 / 4:
        return tensors(rng, values)
    return rng.choice(forms)


def tensors(rng: Random, values: Sequence[Any]) -> dict[str, Any]:
    """A v2 request."""
    cut = rng.randint(0, len(values))
    parts = [part for part in (values[:cut], values[cut:]) if part]
    inputs = [
        {"name": "x", "shape": [len(p)], "datatype": "BYTES", "data": list(p)}
        if rng.random() < 1 / 2
        else {"name": canary(rng), "shape": [1, len(p), 1], "datatype": "BYTES", "data": [[[one] for one in p]]}
        for p in parts
    ]
    request: dict[str, Any] = {"inputs": inputs}
    if rng.random() < 1 / 3:
        request["id"] = rng.choice(("42", "", "é\n\x00", "x" * 1000))
    if rng.random() < 1 / 3:
        request["outputs"] = rng.choice(([], [{"name": "predictions"}], None))
    return request


def broken_tensors(rng: Random, values: Sequence[Any]) -> dict[str, Any]:
    """A v2 request with something wrong in it."""
    request = tensors(rng, values or ["x"])
    tensor = rng.choice(request["inputs"])
    shapes: tuple[Any, ...] = ([], [2**64], [-1, -1], [10**9] * 8, [1] * 9, [1.0], ["1"], [True], None, {}, 5, [0])
    match rng.randrange(6):
        case 0:
            tensor["shape"] = rng.choice(shapes)
        case 1:
            tensor["datatype"] = rng.choice(DATATYPES)
        case 2:
            tensor["data"] = rng.choice((None, "x", {}, 5, [], [[[[]]]], [[]] * 50))
        case 3:
            request["id"] = rng.choice((5, ["x"], {"a": 1}, "x" * 1001, True))
        case 4:
            request["outputs"] = rng.choice(([{"name": "embedding"}], "predictions", {"a": 1}, [5], 7))
        case _:
            request["inputs"] = [*request["inputs"], rng.choice((None, 5, "x", [], {}))]
    return request


def by_grpc(rng: Random, values: Sequence[bytes]) -> dict[str, Any]:
    """What TorchServe's gRPC endpoint makes of a v2 request: bytes are base64."""
    elements: list[Any] = [base64.b64encode(value).decode() for value in values]
    if elements and rng.random() < 1 / 5:
        elements[rng.randrange(len(elements))] = rng.choice(("?", "AAA", None, 5, "é", {}, True))
    make = broken_tensors if rng.random() < 1 / 4 else tensors
    return {"model_name": "m", "model_version": "1.0", **make(rng, elements)}


def anything(rng: Random, strings: Sequence[str], depth: int = 4) -> Any:
    """Any JSON value, of names and strings that mean something somewhere."""
    if depth and rng.random() < 3 / 5:
        count = rng.choice(SIZES)
        if rng.random() < 1 / 2:
            return [anything(rng, strings, depth - 1) for _ in range(count)]
        names = (rng.choice((*NAMES, canary(rng), "")) for _ in range(count))
        return {name: anything(rng, strings, depth - 1) for name in names}
    numbers = (0, -1, 1.5, 1e308, 10**30, float("nan"), float("inf"), -0.0, True, False, None)
    return rng.choice(strings) if strings and rng.random() < 1 / 2 else rng.choice(numbers)


def written(rng: Random, value: Any) -> bytes:
    """The document as bytes, in one of JSON's spellings."""
    text = json.dumps(value, ensure_ascii=rng.random() < 1 / 2, indent=rng.choice((None, None, 0, 3)))
    encoding = rng.choice(("utf-8",) * 8 + ("utf-16", "utf-32-le", "utf-8-sig"))
    return (rng.choice(("", "", " \n")) + text).encode(encoding, "surrogatepass")


def damaged(rng: Random, data: bytes) -> bytes:
    """The document with a few bytes wrong, cut, doubled or let in."""
    match rng.randrange(4):
        case 0:
            return data[: rng.randrange(len(data) + 1)]
        case 1:
            return data + data[rng.randrange(len(data) + 1) :]
        case 2:
            place = rng.randrange(len(data) + 1)
            between = (b'"', b"]", b"\0", b"\xff", b"NaN", b"//x", b"\\u", b",", canary(rng).encode())
            return data[:place] + rng.choice(between) + data[place:]
    changed = bytearray(data)
    for _ in range(rng.randint(1, MOST_FLIPS)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def monster(rng: Random, string: str) -> bytes:
    """A document that asks much of its reader; never as deep as Python's own limit."""
    text = json.dumps(string)
    word = json.dumps(canary(rng))
    key = rng.choice((*KEYS, "instances"))
    # Short elements: what is too long is refused by count, and 64 of them are work enough.
    document = rng.choice(
        (
            "[" * DEEP,
            '{"a":' * DEEP,
            '[{"text":' * DEEP,
            "[" * SHALLOW + word + "]" * SHALLOW,
            f'{{"{key}": {"[" * SHALLOW + word + "]" * SHALLOW}}}',
            '{"text":' * SHALLOW + word + "}" * SHALLOW,
            f'{{"{key}": NaN}}',
            "[NaN, Infinity, -Infinity, " + word + "]",
            "9" * 10_000,
            f'{{"{key}": {"9" * 10_000}}}',
            f"[{'9' * 4000}, -1e999, {word}]",
            f'{{"{key}": 1, "{key}": {word}, "{key}": {text}}}',
            f'{{"{key}": {text}, "{key}": null}}',
            '{"x": [' + ",".join(["{}"] * 20_000) + f'], "{key}": {text}}}',
            "{" + ",".join(f'"{n}{word[1:]}: 1' for n in range(5000)) + f', "{key}": {text}}}',
            f"[{','.join([word] * rng.choice(LIST_SIZES))}]",
            f'{{"{key}": [{",".join([word] * rng.choice(LIST_SIZES))}]}}',
            "[" + "[]," * 40_000 + "[]]",
            "\ufeff" + text,
            text + text,
            f"{{'text': {text}}}",
            f'{{"text": {text},}}',
            '"\\ud83d\\ud83d"',
            f'{{"\\ud800": 1, "{key}": {text}}}',
            "nul",
            "",
        )
    )
    return document.encode()


def at_the_edge(rng: Random) -> bytes:
    """Nested about as deep as Python reads."""
    depth = rng.randint(*EDGE)
    start, end = rng.choice((("[", "]"), ('{"text":', "}"), ('{"instances":[', "]}")))
    return (start * depth + json.dumps(canary(rng)) + end * depth).encode()
