"""Run a network that was recorded as PyTorch's own operators, program.json, on no more cores than its worker has.

The program is data. It names operators of ATen, those of operators.py alone, and nothing else: no class, no module, no
expression to evaluate. (A .pt2 of torch.export can hold all of these, and takes seconds to load.) So no
program prints, reaches files, answers by chance, trusts memory that nobody filled, or keeps anything of one batch for
the next. What operators make of bad arguments is PyTorch's to check.
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

from handlers.arrays import Float32Array
from handlers.operators import is_allowed

FORMAT = 1
WEIGHTS = "model.weights"
# What weights may be made of; numpy knows others, of which some are addresses.
DTYPES = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"})
# What operators take and give, beside lists of them and None. (A device is data too: other than CPU, it fails.)
ARGUMENTS = frozenset({"Tensor", "int", "float", "bool", "number", "str", "Device"})
RETURNS = frozenset({"Tensor", "int", "float", "bool", "number"})
# Arguments that are false, 0 or left out when a network is served.
TRAINING = frozenset({"train", "training", "use_input_stats", "dropout_p"})


@dataclass(frozen=True, slots=True)
class _Value:
    """The place in a step's arguments of a value that was made before."""

    name: str


@dataclass(frozen=True, slots=True)
class _Step:
    """One call. `out` names its value, or each of several; `last` are the values that nobody needs after it.

    `writes`: whether it writes to its first argument.
    """

    operator: Any
    writes: bool
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
        self._storages = {one.untyped_storage().data_ptr() for one in self._weights.values() if one.numel()}
        for step in self._steps:
            if step.writes and isinstance(step.args[0], _Value) and step.args[0].name in self._weights:
                raise ValueError(f"{step.operator} writes to the weight {step.args[0].name}")

    def run(self, feeds: Mapping[str, npt.NDArray[Any]]) -> Float32Array:
        """Logits float32[B, labels] of one batch."""
        values: dict[str, Any] = {name: torch.from_numpy(np.ascontiguousarray(feeds[name])) for name in self._inputs}
        with torch.inference_mode():
            for step in self._steps:
                args = [self._filled(one, values) for one in step.args]
                if step.writes:
                    self._require_no_weight(args[0])
                made = step.operator(*args, **{name: self._filled(one, values) for name, one in step.kwargs.items()})
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

    def _require_no_weight(self, written: Tensor) -> None:
        """Views of weights share their memory; which values are views is known only now."""
        if written.untyped_storage().data_ptr() in self._storages:
            raise ValueError("the program writes to a weight")


def _argument(entry: dict[str, Any]) -> Any:
    """What a JSON object of the file stands for: a value by its name, a float that JSON cannot write, or itself."""
    match entry:
        case {"value": str(name)} if len(entry) == 1:
            return _Value(name)
        case {"float": str(text)} if len(entry) == 1:
            return float(text)
    return entry


def _mapped(file: Path, entries: Mapping[str, Any]) -> dict[str, Tensor]:
    """The weights by name. Private pages: whatever happens to one never changes the file."""
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
        operator = _operator(entry["op"])
        writes = _require_serving(operator._schema, entry["args"], entry["kwargs"])
        steps.append(_Step(operator, writes, entry["args"], entry["kwargs"], out, last))
    return steps[::-1]


def _used(argument: Any) -> set[str]:
    if isinstance(argument, list):
        return set().union(*map(_used, argument))
    return {argument.name} if isinstance(argument, _Value) else set()


def _operator(name: str) -> Any:
    """The operator PACKET.OVERLOAD of ATen. Raises ValueError for one that a program may not name."""
    packet, _, overload = name.partition(".")
    if not is_allowed(packet):
        raise ValueError(f"{name} is not among the operators that these handlers run")
    operator = getattr(getattr(torch.ops.aten, packet, None), overload, None)
    if operator is None or not isinstance(operator, torch._ops.OpOverload):
        raise ValueError(f"{name} is no operator of this version of torch, {torch.__version__}")
    schema = operator._schema
    arguments = {_element(argument.type) for argument in schema.arguments}
    returns = {_element(one.type) for one in schema.returns}
    if not arguments <= ARGUMENTS or not returns or not returns <= RETURNS:
        raise ValueError(f"{name} does not make tensors or numbers of tensors and numbers alone")
    if any(argument.is_write for argument in schema.arguments[1:]):
        raise ValueError(f"{name} writes to more than its first argument")
    return operator


def _element(kind: Any) -> str:
    """The type without what says that there may be several, or none."""
    while hasattr(kind, "getElementType"):
        kind = kind.getElementType()
    return str(kind)


def _require_serving(schema: Any, args: list[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call writes to its first argument, which it then must name. Raises ValueError for one of training."""
    given = dict(zip((argument.name for argument in schema.arguments), args, strict=False)) | dict(kwargs)
    if any(given.get(name) for name in TRAINING):
        raise ValueError(f"{schema.name} is called as in training")
    writes = any(argument.is_write for argument in schema.arguments[:1])
    if writes and not args:
        raise ValueError(f"{schema.name} is called without its first argument, to which it writes")
    return writes
