"""Network -> program.json and its weights: PyTorch's own operators in the order in which the network calls them.

For what ONNX cannot hold. torch.jit.trace records the calls while the network answers an example; it follows networks
that torch.export refuses, and whatever it took for fixed, the comparison with the checkpoint finds. The recording is
written as data, where torch's own formats (.pt, .pt2) hold pickles. The worker's reader is handlers/program.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from marsmith.errors import ExportError, first_line
from marsmith.ground.quiet import quiet
from marsmith.ground.serving import dump_json

PROGRAM, WEIGHTS = "program.json", "model.weights"
FORMAT = 1
# Weights begin at multiples of it: a cache line, and the widest vector.
ALIGNMENT_BYTES = 64
# c10::ScalarType of a Python number as a tensor.
NUMBER_DTYPES = {"int": 4, "float": 7, "bool": 11}

Run = Callable[[Mapping[str, np.ndarray]], np.ndarray]


def record(module: nn.Module, example: Mapping[str, np.ndarray], out: Path) -> None:
    """Write what `module` does with `example`, its arguments in order, into the directory `out`. Raises ExportError."""
    try:
        with quiet(), torch.no_grad():
            tensors = tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in example.values())
            traced = torch.jit.trace(  # type: ignore[no-untyped-call]
                module.eval(), tensors, check_trace=False, strict=False
            )
        _Recording(traced, list(example)).write(out)
    except OSError as error:
        raise ExportError(f"There is no room for the export in {out.parent}: {error.strerror}. Set TMPDIR.") from None
    except ExportError:
        raise
    except Exception as error:  # a model's own code raises nearly every type
        raise ExportError(f"The network cannot be recorded: {first_line(error)}.") from error


class _Recording:
    """The steps and weights of a traced module. Tuples and lists are taken apart: what is left are tensors and numbers.

    `_values` maps the graph's own names to what stands for them in a step's arguments, `_paths` to modules and weights.
    """

    def __init__(self, traced: Any, inputs: list[str]) -> None:
        self._traced = traced
        self._inputs = inputs
        self._steps: list[dict[str, Any]] = []
        self._weights: dict[str, Tensor] = {}
        self._paths: dict[str, str] = {}
        graph = traced.inlined_graph
        itself, *arguments = (value.debugName() for value in graph.inputs())
        self._paths[itself] = ""
        self._values: dict[str, Any] = {
            argument: {"value": name} for argument, name in zip(arguments, inputs, strict=True)
        }
        for node in graph.nodes():
            self._add(node)
        (output,) = graph.outputs()
        self._output = self._values[output.debugName()]

    def _add(self, node: Any) -> None:
        kind, outputs = node.kind(), [value.debugName() for value in node.outputs()]
        if kind == "prim::GetAttr":
            path = f"{self._paths[node.input().debugName()]}.{node.s('name')}".lstrip(".")
            self._paths[outputs[0]] = path
            if isinstance(found := attrgetter(path)(self._traced), Tensor):
                self._values[outputs[0]] = self._weight(path, found)
            return
        inputs = [self._values[value.debugName()] for value in node.inputs()]
        if kind == "prim::Constant":
            self._values[outputs[0]] = self._constant(node.output().toIValue())
        elif kind in ("prim::ListConstruct", "prim::TupleConstruct"):
            self._values[outputs[0]] = inputs
        elif kind in ("prim::TupleUnpack", "prim::ListUnpack") and isinstance(inputs[0], list):
            self._values.update(zip(outputs, inputs[0], strict=True))
        elif kind == "prim::ListUnpack" and self._steps and {"value": self._steps[-1]["out"]} == inputs[0]:
            self._steps[-1]["out"] = self._named(outputs)
        elif kind == "prim::NumToTensor":
            dtype = NUMBER_DTYPES[str(node.input().type())]
            self._step("scalar_tensor.default", inputs, {"dtype": dtype}, outputs)
        elif kind.startswith("aten::"):
            self._call(torch._C.parse_schema(node.schema()), inputs, outputs)
        else:
            raise ExportError(f"The network cannot be recorded: it needs {kind}, which is no operator on tensors.")

    def _call(self, schema: Any, inputs: list[Any], outputs: list[str]) -> None:
        packet = schema.name.removeprefix("aten::")
        pairs = list(zip(schema.arguments, inputs, strict=True))
        self._step(
            f"{packet}.{schema.overload_name or 'default'}",
            [value for argument, value in pairs if not argument.kwarg_only],
            {argument.name: value for argument, value in pairs if argument.kwarg_only and value is not None},
            outputs,
        )

    def _step(self, name: str, args: list[Any], kwargs: dict[str, Any], outputs: list[str]) -> None:
        names = self._named(outputs)
        self._steps.append({"op": name, "args": args, "kwargs": kwargs, "out": names if len(names) > 1 else names[0]})

    def _named(self, outputs: list[str]) -> list[str]:
        """Names of our own for new values: the graph's say where in whose source they were made."""
        names = [f"v{len(self._values) + index}" for index in range(len(outputs))]
        self._values.update({output: {"value": name} for output, name in zip(outputs, names, strict=True)})
        return names

    def _constant(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._weight(f"constant.{len(self._weights)}", value)
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        if isinstance(value, torch.device):
            return str(value)
        if isinstance(value, (list, tuple)):
            return [self._constant(one) for one in value]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise ExportError(f"The network cannot be recorded: it needs a {type(value).__name__}, which is no number.")

    def _weight(self, name: str, tensor: Tensor) -> dict[str, str]:
        """A weight by its name; of tied ones, which are one tensor, by the first."""
        tensor = tensor.detach()
        for known, other in self._weights.items():
            if tensor.numel() and _identity(tensor) == _identity(other):
                return {"value": known}
        self._weights[name] = tensor
        return {"value": name}

    def write(self, out: Path) -> None:
        """Write both files."""
        entries: dict[str, dict[str, object]] = {}
        with (out / WEIGHTS).open("wb") as stream:
            for name, tensor in self._weights.items():
                stream.write(bytes(-stream.tell() % ALIGNMENT_BYTES))
                array = tensor.contiguous().numpy()
                entries[name] = {"dtype": str(array.dtype), "shape": list(array.shape), "offset": stream.tell()}
                stream.write(array.tobytes())
        program = {
            "format": FORMAT,
            "inputs": self._inputs,
            "weights": entries,
            "steps": self._steps,
            "output": self._output,
        }
        (out / PROGRAM).write_bytes(dump_json(program))


def _identity(tensor: Tensor) -> tuple[object, ...]:
    """What two tensors that are one have alike. A square matrix and its transpose differ in the stride alone."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def player(file: Path) -> Run:
    """A program as a function from feeds to logits, read back from its files. The function raises ExportError.

    The handlers have their own, with more care for time and memory; golden requests hold the two together.
    """
    program = json.loads(file.read_text(encoding="utf-8"))
    data = np.fromfile(file.with_name(WEIGHTS), np.uint8)
    weights: dict[str, Any] = {}
    for name, entry in program["weights"].items():
        count = math.prod(entry["shape"])
        array = np.frombuffer(data, entry["dtype"], count, entry["offset"])
        weights[name] = torch.from_numpy(array.reshape(entry["shape"]))

    def logits(feeds: Mapping[str, np.ndarray]) -> np.ndarray:
        values = weights | {name: torch.from_numpy(np.ascontiguousarray(feeds[name])) for name in program["inputs"]}

        def filled(argument: Any) -> Any:
            match argument:
                case {"value": name}:
                    return values[name]
                case {"float": text}:
                    return float(text)
                case list():
                    return [filled(one) for one in argument]
            return argument

        try:
            with torch.inference_mode():
                for step in program["steps"]:
                    operator = attrgetter(step["op"])(torch.ops.aten)
                    made = operator(
                        *map(filled, step["args"]), **{name: filled(one) for name, one in step["kwargs"].items()}
                    )
                    out = step["out"]
                    values.update({out: made} if isinstance(out, str) else dict(zip(out, made, strict=True)))
                result: np.ndarray = filled(program["output"]).numpy()
                return result
        except Exception as error:  # torch raises several types
            raise ExportError(f"PyTorch cannot run the recorded network: {first_line(error)}.") from error

    return logits
