"""Dynamic int8 quantisation of an exported graph: products that are exact on every CPU, whatever else is in a batch.

Each column of a weight matrix has a scale of its own, and so has each token, or patch, that is multiplied by it: large
values leave the precision of others alone, and no answer depends on its neighbours. Tokens' scales are computed as they
come. Where some channels of all tokens are far larger than the others, a part of that goes into the weights first
(SmoothQuant: Xiao et al., arXiv 2211.10438).

x86-64 without VNNI adds two products of an unsigned and a signed byte in 16 signed bits (`vpmaddubsw`): 255 * 127 * 2
saturates there. Which two, ONNX Runtime's packing says (mlas, qgemm_kernel_avx2.cpp): neighbours in a group of four
channels. So a column has the finest scale at which no two weights of one group pass 128 together, 7 to 8 bits. Other
CPUs could take 8 bits, but the same archive has to answer alike on all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from marsmith.errors import ExportError
from marsmith.network.export import GRAPH, save_graph
from marsmith.network.ranges import largest_by_channel

LARGEST_WEIGHT = 127
LARGEST_ACTIVATION = 255
# Channels of which two products may be added in 16 bits, and the largest sum of two of their weights.
GROUP, LARGEST_PAIR = 4, 128  # 255 * 128 < 2**15
# The byte that stands for 0. GELU is never below -0.17, so most of the range is for what is above.
ZERO_POINT = 128
GELU_ZERO_POINT = 64
ZERO_POINTS = {"Gelu": GELU_ZERO_POINT}
# By which a token of zeros alone is divided.
TINY = 1e-10
# A channel is divided by its largest value to this power, over its largest weight to 1 less that. SmoothQuant's half is
# for weights of as many bits, and for one scale for all tokens; here 0.65 is nearer, on photos and on texts ...
SMOOTHING = 0.65
# ... in steps of half an octave, of which the last digits of what was observed hardly ever choose another one ...
STEPS_PER_OCTAVE = 2
# ... where the largest channel is so many times the middle one. Elsewhere it is not worth its time.
UNEVEN = 3.0
# Where ONNX Runtime's own operators are.
CONTRIB = "com.microsoft"


def quantise(exported: Path, out: Path, inputs: Iterable[Mapping[str, np.ndarray]]) -> None:
    """Write the graph in the directory `exported` with its products by constant matrices in int8 into `out`.

    Everything else, attention's own products too, stays float32. `inputs` are feeds like those that the graph will
    see. Raises ExportError where nothing can be quantised.
    """
    model = onnx.load(exported / GRAPH)
    quantiser = Quantiser(model.graph)
    tokens = quantiser.tokens()
    if not tokens:
        raise ExportError(
            'The network has no product by a constant matrix, so int8 gains nothing: set precision = "fp32".'
        )
    quantiser.run(largest_by_channel(exported, tokens, inputs))
    model.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    save_graph(model, out)


def quantised(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix float32[rows, columns] as int8, and its scales float32[columns]: product, rounded, gives it back."""
    exact = weights.astype(np.float64)
    largest = np.maximum(np.abs(exact).max(axis=0) / LARGEST_WEIGHT, largest_pair(exact) / LARGEST_PAIR)
    # Rounded up: of two weights whose sum is below the limit, rounding makes none above it.
    scales = np.nextafter(np.where(largest > 0, largest, 1.0).astype(np.float32), np.float32(np.inf))
    return np.rint(exact / scales).astype(np.int8), scales


def largest_pair(weights: np.ndarray) -> np.ndarray:
    """The largest sum, or least without its sign, of two weights of one group, for each column: [columns]."""
    missing = -len(weights) % GROUP
    groups = np.pad(weights, ((0, missing), (0, 0))).reshape(-1, GROUP, weights.shape[1])
    sums = [np.sort(np.maximum(sign * groups, 0), axis=1)[:, -2:].sum(axis=1).max(axis=0) for sign in (1, -1)]
    return np.asarray(np.maximum(*sums))


def smoothing(largest: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
    """What each channel is divided by, float32[channels]; None where the channels are even.

    `largest` is float32[channels], `rows` the largest weight of each channel. The divisors' geometric mean is about 1.
    """
    heard, read = largest[largest > 0], rows[rows > 0]
    if not heard.size or not read.size or heard.max() <= UNEVEN * np.median(heard):
        return None
    # A channel that was silent in what was observed, as ReLU's may be, is not silent for ever.
    usual = np.maximum(largest, np.median(heard))
    octaves = SMOOTHING * np.log2(usual) - (1 - SMOOTHING) * np.log2(np.maximum(rows, np.median(read)))
    return np.asarray(np.exp2(np.rint((octaves - octaves.mean()) * STEPS_PER_OCTAVE) / STEPS_PER_OCTAVE), np.float32)


class Quantiser:
    """Rewrites one graph. What is multiplied several times is quantised once, and so is a matrix used several times."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._graph = graph
        self._constants: dict[str, onnx.TensorProto] = {}
        self._made_by = {name: node.op_type for node in graph.node for name in node.output}
        matrices = {one.name: one for one in graph.initializer if len(one.dims) == 2}
        # Products by tokens, and matrices with the tokens that they multiply.
        self._products: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        self._partners: dict[str, set[str]] = defaultdict(set)
        for node in graph.node:
            if node.op_type == "MatMul" and node.input[1] in matrices:
                self._products[node.input[0]].append(node)
                self._partners[node.input[1]].add(node.input[0])
        self._matrices = {name: matrices[name] for name in self._partners}

    def tokens(self) -> list[str]:
        """The tensors that are multiplied by constant matrices."""
        return sorted(self._products)

    def run(self, largest: Mapping[str, np.ndarray]) -> None:
        """Rewrite the graph, where the tensors' channels are at most so large."""
        divisors = {tokens: self._divisor(tokens, values) for tokens, values in largest.items()}
        nodes: list[onnx.NodeProto] = []
        seen: set[str] = set()
        for node in self._graph.node:
            tokens = node.input[0] if node.input else ""
            if node.op_type != "MatMul" or node.input[1] not in self._matrices:
                nodes.append(node)
                continue
            if tokens not in seen:
                seen.add(tokens)
                nodes += self._bytes(tokens, divisors.get(tokens))
            nodes += self._product(node, divisors.get(tokens))
        read = {name for node in nodes for name in node.input}
        kept = [one for one in self._graph.initializer if one.name in read]
        del self._graph.node[:], self._graph.initializer[:]
        self._graph.node.extend(nodes)
        self._graph.initializer.extend([*kept, *self._constants.values()])

    def _divisor(self, tokens: str, largest: np.ndarray) -> np.ndarray | None:
        """What the channels are divided by; a matrix that others multiply too would have to be there twice."""
        matrices = [node.input[1] for node in self._products[tokens]]
        if any(len(self._partners[name]) > 1 for name in matrices):
            return None
        return smoothing(largest, np.max([np.abs(self._matrix(name)).max(axis=1) for name in matrices], axis=0))

    def _matrix(self, name: str) -> np.ndarray:
        return numpy_helper.to_array(self._matrices[name])

    def _bytes(self, tokens: str, divisor: np.ndarray | None) -> Iterator[onnx.NodeProto]:
        """Each token by its magnitude: its largest value, or what that were if its least is the end of the range."""
        zero_point = self._zero_point(tokens)
        smooth = tokens
        if divisor is not None:
            smooth = f"{tokens}/smooth"
            yield helper.make_node("Mul", [tokens, self._constant(f"{tokens}/factor", 1 / divisor)], [smooth])
        width = self._constant("quantise/width", np.array([-1], np.int64))
        tiny = self._constant("quantise/tiny", np.float32(TINY))
        ratio = np.float32(-(LARGEST_ACTIVATION - zero_point) / zero_point)
        below = self._constant(f"quantise/ratio{zero_point}", ratio)
        most, least, scaled = f"{tokens}/max", f"{tokens}/min", f"{tokens}/min/scaled"
        yield helper.make_node("ReduceMax", [smooth, width], [most], keepdims=1)
        yield helper.make_node("ReduceMin", [smooth, width], [least], keepdims=1)
        yield helper.make_node("Mul", [least, below], [scaled])
        yield helper.make_node("Max", [most, scaled, tiny], [f"{tokens}/magnitude"])
        yield helper.make_node("Div", [smooth, f"{tokens}/magnitude"], [f"{tokens}/unit"])
        yield helper.make_node("QuantizeLinear", [f"{tokens}/unit", *self._step(zero_point)], [f"{tokens}/uint8"])

    def _product(self, node: onnx.NodeProto, divisor: np.ndarray | None) -> Iterator[onnx.NodeProto]:
        """The tokens in bytes by the weights in bytes, times the scales of columns and the magnitudes of tokens."""
        (tokens, weights), (result,) = node.input, node.output
        if f"{weights}/int8" not in self._constants:
            content, scales = quantised(self._matrix(weights) * (1 if divisor is None else divisor[:, None]))
            self._constant(f"{weights}/int8", content)
            self._constant(f"{weights}/scales", scales)
            self._constant(f"{weights}/zero", np.zeros(scales.shape, np.int8))
        scale, zero = self._step(self._zero_point(tokens))
        operands = [f"{tokens}/uint8", f"{weights}/int8", scale, f"{weights}/scales", zero, f"{weights}/zero"]
        yield helper.make_node("MatMulIntegerToFloat", operands, [f"{result}/unscaled"], domain=CONTRIB)
        yield helper.make_node("Mul", [f"{result}/unscaled", f"{tokens}/magnitude"], [result])

    def _zero_point(self, tokens: str) -> int:
        return ZERO_POINTS.get(self._made_by.get(tokens, ""), ZERO_POINT)

    def _step(self, zero_point: int) -> tuple[str, str]:
        """What one step of a byte is of a token's magnitude, and the byte that stands for 0."""
        scale = self._constant(f"quantise/step{zero_point}", np.float32(1 / (LARGEST_ACTIVATION - zero_point)))
        return scale, self._constant(f"quantise/zero{zero_point}", np.uint8(zero_point))

    def _constant(self, name: str, value: np.ndarray | np.generic) -> str:
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.asarray(value), name)
        return name
