"""Dynamic int8 quantisation of an exported graph: the same answers on every CPU, whatever else is in a batch.

Each column of a weight matrix has a scale of its own, and so has each token, or patch, that is multiplied by it: large
values leave the precision of others alone, and no answer depends on its neighbours. The tokens' scales are computed as
they come, so that no ranges are to be calibrated.

Weights have 7 bits. x86-64 without VNNI adds two products of an unsigned and a signed byte in 16 signed bits
(`vpmaddubsw`): 255 * 127 * 2 saturates there, 255 * 63 * 2 does not. Other CPUs could take 8 bits, but the same archive
has to answer alike on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from marsmith.errors import ExportError
from marsmith.export import GRAPH, save_graph

LARGEST_WEIGHT = 63
LARGEST_ACTIVATION = 255
# The byte that stands for 0. GELU is never below -0.17, so most of the range is for what is above.
ZERO_POINT = 128
GELU_ZERO_POINT = 64
ZERO_POINTS = {"Gelu": GELU_ZERO_POINT}
# By which a token of zeros alone is divided.
SMALLEST_MAGNITUDE = 1e-10
# Where ONNX Runtime's own operators are.
CONTRIB = "com.microsoft"


def quantise(exported: Path, out: Path) -> None:
    """Write the graph in the directory `exported` with its products by constant matrices in int8 into `out`.

    Everything else, attention's own products too, stays float32. Raises ExportError where nothing can be quantised.
    """
    model = onnx.load(exported / GRAPH)
    if not _Quantiser(model.graph).run():
        raise ExportError(
            'The network has no product by a constant matrix, so int8 gains nothing: set precision = "fp32".'
        )
    model.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    save_graph(model, out)


def quantised(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix float32[rows, columns] as int8, and its scales float32[columns]: product, rounded, gives it back."""
    largest = np.abs(weights).max(axis=0)
    scales = np.where(largest > 0, largest / LARGEST_WEIGHT, 1.0).astype(np.float32)
    return np.rint(weights / scales).astype(np.int8), scales


class _Quantiser:
    """Rewrites one graph. What is multiplied several times is quantised once, and so is a matrix used several times."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._graph = graph
        self._matrices = {one.name: one for one in graph.initializer if len(one.dims) == 2}
        self._made_by = {name: node.op_type for node in graph.node for name in node.output}
        self._constants: dict[str, onnx.TensorProto] = {}
        self._tokens: dict[str, int] = {}
        self._replaced: set[str] = set()

    def run(self) -> int:
        """Rewrite the graph; how many products are in int8 now."""
        nodes: list[onnx.NodeProto] = []
        for node in self._graph.node:
            product = node.op_type == "MatMul" and node.input[1] in self._matrices
            nodes += self._product(node) if product else [node]
        read = {name for node in nodes for name in node.input}
        kept = [one for one in self._graph.initializer if one.name in read]
        del self._graph.node[:], self._graph.initializer[:]
        self._graph.node.extend(nodes)
        self._graph.initializer.extend([*kept, *self._constants.values()])
        return len(self._replaced)

    def _product(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """The tokens in bytes by the weights in bytes, times the scales of columns and the magnitudes of tokens."""
        (tokens, weights), (result,) = node.input, node.output
        if tokens not in self._tokens:
            self._tokens[tokens] = ZERO_POINTS.get(self._made_by.get(tokens, ""), ZERO_POINT)
            yield from self._bytes(tokens, self._tokens[tokens])
        if weights not in self._replaced:
            self._replaced.add(weights)
            content, scales = quantised(numpy_helper.to_array(self._matrices[weights]))
            self._constant(f"{weights}/int8", content)
            self._constant(f"{weights}/scales", scales)
            self._constant(f"{weights}/zero", np.zeros(scales.shape, np.int8))
        scale, zero = self._step(self._tokens[tokens])
        operands = [f"{tokens}/uint8", f"{weights}/int8", scale, f"{weights}/scales", zero, f"{weights}/zero"]
        yield helper.make_node("MatMulIntegerToFloat", operands, [f"{result}/unscaled"], domain=CONTRIB)
        yield helper.make_node("Mul", [f"{result}/unscaled", f"{tokens}/magnitude"], [result])

    def _bytes(self, tokens: str, zero_point: int) -> Iterator[onnx.NodeProto]:
        """Each token by its magnitude: its largest value, or what that were if its least is the end of the range."""
        width = self._constant("quantise/width", np.array([-1], np.int64))
        tiny = self._constant("quantise/tiny", np.float32(SMALLEST_MAGNITUDE))
        ratio = np.float32(-(LARGEST_ACTIVATION - zero_point) / zero_point)
        below = self._constant(f"quantise/ratio{zero_point}", ratio)
        scale, zero = self._step(zero_point)
        most, least, scaled = f"{tokens}/max", f"{tokens}/min", f"{tokens}/min/scaled"
        yield helper.make_node("ReduceMax", [tokens, width], [most], keepdims=1)
        yield helper.make_node("ReduceMin", [tokens, width], [least], keepdims=1)
        yield helper.make_node("Mul", [least, below], [scaled])
        yield helper.make_node("Max", [most, scaled, tiny], [f"{tokens}/magnitude"])
        yield helper.make_node("Div", [tokens, f"{tokens}/magnitude"], [f"{tokens}/unit"])
        yield helper.make_node("QuantizeLinear", [f"{tokens}/unit", scale, zero], [f"{tokens}/uint8"])

    def _step(self, zero_point: int) -> tuple[str, str]:
        """What one step of a byte is of a token's magnitude, and the byte that stands for 0."""
        scale = self._constant(f"quantise/step{zero_point}", np.float32(1 / (LARGEST_ACTIVATION - zero_point)))
        return scale, self._constant(f"quantise/zero{zero_point}", np.uint8(zero_point))

    def _constant(self, name: str, value: np.ndarray | np.generic) -> str:
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.asarray(value), name)
        return name
