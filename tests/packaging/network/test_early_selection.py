"""What no answer needs is not computed, and the answers stay the same."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from marsmith.network.early_selection import select_tokens_early

WIDTH = 8
RNG = np.random.default_rng(1)
# Of results that are no [inputs, tokens, WIDTH].
SHAPES: dict[str, list[str | int]] = {
    "turned": ["inputs", WIDTH, "tokens"],
    "alike": ["inputs", "tokens", "tokens"],
    "weights": ["inputs", "tokens", "tokens"],
    "mean": [],
}
FEEDS = {"x": RNG.standard_normal((2, 5, WIDTH)).astype(np.float32)}


def constant(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(RNG.standard_normal(shape).astype(np.float32), name)


def model(nodes: list[onnx.NodeProto], index: np.ndarray, outputs: tuple[str, ...] = ("logits",)) -> onnx.ModelProto:
    """A graph of `x` float32[inputs, tokens, WIDTH], with the shapes that an export knows of."""
    named = [name for node in nodes for name in node.output if name not in outputs]
    tokens: list[str | int] = ["inputs", "tokens", WIDTH]
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, tokens)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [constant("w", WIDTH, WIDTH), constant("b", WIDTH), numpy_helper.from_array(index, "index")],
        value_info=[
            helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPES.get(name, tokens)) for name in ("x", *named)
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


LAYER = [
    helper.make_node("MatMul", ["x", "w"], ["dense"]),
    helper.make_node("Add", ["dense", "b"], ["shifted"]),
    helper.make_node("Gelu", ["shifted"], ["active"]),
    helper.make_node("Add", ["active", "x"], ["residual"]),
    helper.make_node("LayerNormalization", ["residual", "b", "b"], ["normal"], axis=-1),
]
FIRST = helper.make_node("Gather", ["normal", "index"], ["logits"], axis=1)


def run(graph: onnx.ModelProto) -> list[np.ndarray]:
    session = ort.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(one) for one in session.run(None, FEEDS)]


def rows_of_products(graph: onnx.ModelProto) -> list[int]:
    """How many tokens each product by a matrix sees."""
    seen = onnx.ModelProto()
    seen.CopyFrom(graph)
    names = [node.input[0] for node in seen.graph.node if node.op_type == "MatMul"]
    del seen.graph.output[:]
    seen.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    return [one.shape[1] for one in run(seen)]


@pytest.mark.parametrize("index", [np.array(0), np.array(3), np.array([0]), np.array([4, 1])])
def test_selected_tokens_alone_are_computed(index: np.ndarray) -> None:
    graph = model([*LAYER, FIRST], index)
    (expected,) = run(graph)
    assert rows_of_products(graph) == [5]
    assert select_tokens_early(graph) == len(LAYER)
    (got,) = run(graph)
    assert got.shape == expected.shape
    assert got == pytest.approx(expected, abs=1e-6)
    assert rows_of_products(graph) == [index.size]


def test_what_else_is_read_is_computed_whole() -> None:
    """The mean of all tokens needs them all."""
    mean = helper.make_node("ReduceMean", ["normal"], ["mean"], keepdims=0)
    graph = model([*LAYER, FIRST, mean], np.array(0), outputs=("logits", "mean"))
    expected = run(graph)
    assert select_tokens_early(graph) == 0
    assert all(got == pytest.approx(one, abs=1e-6) for got, one in zip(run(graph), expected, strict=True))


def test_an_output_of_the_graph_stays_whole() -> None:
    graph = model([*LAYER, FIRST], np.array(0), outputs=("logits", "normal"))
    assert select_tokens_early(graph) == 0
    assert run(graph)[1].shape == (2, 5, WIDTH)


def test_nothing_moves_before_what_mixes_tokens() -> None:
    """A softmax over tokens, or a product of two results: what is behind it is moved, it and what is before are not."""
    mixing = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "turned"], ["alike"]),
        helper.make_node("Softmax", ["alike"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "x"], ["mixed"]),
        helper.make_node("Add", ["mixed", "b"], ["normal"]),
    ]
    graph = model([*mixing, FIRST], np.array(2))
    (expected,) = run(graph)
    assert select_tokens_early(graph) == 1
    (got,) = run(graph)
    assert got == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("sources", [("normal", "normal"), ("normal", "other"), ("other", "normal")])
def test_several_selections_are_each_moved_or_left_right(sources: tuple[str, str]) -> None:
    """A network with two heads."""
    second = [helper.make_node("MatMul", ["x", "w"], ["more"]), helper.make_node("Gelu", ["more"], ["other"])]
    heads = [
        helper.make_node("Gather", [name, index], [f"head{place}"], axis=1)
        for place, (name, index) in enumerate(zip(sources, ("index", "index2"), strict=True))
    ]
    graph = model([*LAYER, *second, *heads], np.array(0), outputs=("head0", "head1"))
    graph.graph.initializer.append(numpy_helper.from_array(np.array([3, 1]), "index2"))
    expected = run(graph)
    moved = select_tokens_early(graph)
    assert moved == (0 if sources[0] == sources[1] else len(LAYER) + len(second))
    assert all(got == pytest.approx(one, abs=1e-6) for got, one in zip(run(graph), expected, strict=True))


def test_selections_of_other_axes_stay() -> None:
    graph = model([*LAYER, helper.make_node("Gather", ["normal", "index"], ["logits"], axis=0)], np.array(1))
    assert select_tokens_early(graph) == 0
