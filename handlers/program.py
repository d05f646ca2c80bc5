"""Run a network that was recorded as PyTorch's own operators, program.json, on no more cores than its worker has.

The program is data. It can name operators of ATen and nothing else: no class, no module, no expression to evaluate.
(A .pt2 of torch.export can hold all of these, and takes seconds to load.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from handlers.engine import Float32Array

FORMAT = 1
WEIGHTS = "model.weights"
# What weights may be made of; numpy knows others, of which some are addresses.
DTYPES = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"})


@dataclass(frozen=True, slots=True)
class _Value:
    """The place in a step's arguments of a value that was made before."""

    name: str


@dataclass(frozen=True, slots=True)
class _Step:
    """One call. `out` names its value, or each of several; `last` are the values that nobody needs after it."""

    operator: Any
    args: list[Any]
    kwargs: dict[str, Any]
    out: str | list[str]
    last: list[str]


class Program:
    """One recorded network, loaded for CPU. The weights are mapped, so that several workers share them."""

    def __init__(self, file: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        program = json.loads(file.read_text(encoding="utf-8"), object_hook=_argument)
        if program["format"] != FORMAT:
            raise ValueError(f"{file.name} has format {program['format']}, and these handlers read {FORMAT}")
        self._inputs: list[str] = program["inputs"]
        self._output: str = program["output"].name
        self._weights = _mapped(file.with_name(WEIGHTS), program["weights"])
        self._steps = _planned(program["steps"], self._output)

    def run(self, feeds: Mapping[str, npt.NDArray[Any]]) -> Float32Array:
        """Logits float32[B, labels] of one batch."""
        values: dict[str, Any] = {name: torch.from_numpy(np.ascontiguousarray(feeds[name])) for name in self._inputs}
        with torch.inference_mode():
            for step in self._steps:
                made = step.operator(
                    *(self._filled(one, values) for one in step.args),
                    **{name: self._filled(one, values) for name, one in step.kwargs.items()},
                )
                if isinstance(step.out, str):
                    values[step.out] = made
                else:
                    values.update(zip(step.out, made, strict=True))
                for name in step.last:
                    values.pop(name, None)
            return np.asarray(values[self._output].numpy(), dtype=np.float32)

    def _filled(self, argument: Any, values: Mapping[str, Any]) -> Any:
        if isinstance(argument, _Value):
            return self._weights[argument.name] if argument.name in self._weights else values[argument.name]
        return [self._filled(one, values) for one in argument] if isinstance(argument, list) else argument


def _argument(entry: dict[str, Any]) -> Any:
    """What a JSON object of the file stands for: a value by its name, a float that JSON cannot write, or itself."""
    match entry:
        case {"value": str(name)} if len(entry) == 1:
            return _Value(name)
        case {"float": str(text)} if len(entry) == 1:
            return float(text)
    return entry


def _mapped(file: Path, entries: Mapping[str, Any]) -> dict[str, Tensor]:
    """The weights by name. Private pages: an operator that writes to one never changes the file."""
    if not entries:
        return {}
    data = np.memmap(file, mode="c")
    weights = {}
    for name, entry in entries.items():
        if entry["dtype"] not in DTYPES:
            raise ValueError(f"the weight {name} is of type {entry['dtype']}")
        if any(size < 0 for size in entry["shape"]):
            raise ValueError(f"the weight {name} has the shape {entry['shape']}")
        count = int(np.prod(entry["shape"], dtype=np.int64))
        array = np.frombuffer(data, entry["dtype"], count, entry["offset"])
        weights[name] = torch.from_numpy(array.reshape(entry["shape"]))
    return weights


def _planned(entries: list[dict[str, Any]], output: str) -> list[_Step]:
    """The steps in order, each with the values that can be let go after it."""
    seen = {output}
    steps = []
    for entry in reversed(entries):
        out = entry["out"]
        made = {out} if isinstance(out, str) else set(out)
        last = sorted((_used(entry["args"]) | _used(list(entry["kwargs"].values())) | made) - seen)
        seen |= set(last)
        steps.append(_Step(_operator(entry["op"]), entry["args"], entry["kwargs"], out, last))
    return steps[::-1]


def _used(argument: Any) -> set[str]:
    if isinstance(argument, list):
        return set().union(*map(_used, argument))
    return {argument.name} if isinstance(argument, _Value) else set()


def _operator(name: str) -> Any:
    """The operator PACKET.OVERLOAD of ATen. Raises ValueError for any other, and for those that reach a file."""
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet, None), overload, None)
    if operator is None or not isinstance(operator, torch._ops.OpOverload):
        raise ValueError(f"{name} is no operator of this version of torch, {torch.__version__}")
    if any(argument.name == "filename" for argument in operator._schema.arguments):
        raise ValueError(f"{name} reaches files, which no network does")
    return operator
