"""Graphs of one product, in float32 and in int8."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from marsmith.network.export import GRAPH, save_graph, session
from marsmith.network.int8 import quantise

WIDTH, COLUMNS = 64, 48


def product(directory: Path, weights: np.ndarray, activation: str = "Identity") -> Path:
    """A directory with the graph `logits` = activation(`x`) @ weights."""
    nodes = [helper.make_node(activation, ["x"], ["tokens"]), helper.make_node("MatMul", ["tokens", "w"], ["logits"])]
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "tokens", weights.shape[0]])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "tokens", weights.shape[1]])],
        [numpy_helper.from_array(weights.astype(np.float32), "w")],
    )
    directory.mkdir()
    save_graph(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), directory)
    return directory


def in_int8(directory: Path, x: np.ndarray | None = None) -> Path:
    """The graph quantised, where inputs are like `x`: otherwise even."""
    out = directory / "int8"
    out.mkdir()
    rows = numpy_helper.to_array(onnx.load(directory / GRAPH).graph.initializer[0]).shape[0]
    quantise(directory, out, [{"x": (np.ones((1, 1, rows)) if x is None else x).astype(np.float32)}])
    return out / GRAPH


def run(graph: Path, x: np.ndarray) -> np.ndarray:
    return session(graph)({"x": x.astype(np.float32)})
