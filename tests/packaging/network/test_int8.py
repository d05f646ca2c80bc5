"""int8 networks: exact arithmetic on every CPU, and answers that depend on nothing but the question."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from marsmith.errors import ExportError
from marsmith.network.export import GRAPH, save_graph
from marsmith.network.int8 import (
    GELU_ZERO_POINT,
    GROUP,
    LARGEST_ACTIVATION,
    LARGEST_PAIR,
    LARGEST_WEIGHT,
    ZERO_POINT,
    largest_pair,
    quantised,
)
from tests.packaging.products import COLUMNS, WIDTH, in_int8, product, run

# Two products of an unsigned byte by a signed one are added in 16 signed bits by AVX2's vpmaddubsw.
LARGEST_INT16 = 2**15 - 1


def test_weights_have_a_scale_for_each_column() -> None:
    weights = np.random.default_rng(1).standard_normal((WIDTH, COLUMNS)) * np.logspace(-4, 4, COLUMNS)
    content, scales = quantised(weights.astype(np.float32))
    assert content.dtype == np.dtype(np.int8)
    assert (np.abs(content).max(axis=0) > LARGEST_WEIGHT / 2).all()
    assert (np.abs(content * scales - weights).max(axis=0) <= 0.501 * scales).all()


def test_a_column_of_zeros_stays_one() -> None:
    content, scales = quantised(np.zeros((WIDTH, 2), np.float32))
    assert not content.any()
    assert np.isfinite(scales).all()
    assert (scales > 0).all()


@pytest.mark.parametrize("rows", [1, 2, WIDTH, WIDTH + 3])
def test_no_sum_of_two_products_can_saturate(rows: int) -> None:
    """Whichever two of a group are added, and as finely as that allows."""
    weights = np.random.default_rng(17).standard_normal((rows, COLUMNS)).astype(np.float32)
    content, scales = quantised(weights)
    sums = [
        sign * (first[: len(second)] + second)
        for sign in (1, -1)
        for place in range(GROUP)
        for other in range(place + 1, GROUP)
        for first, second in [(content.astype(np.int64)[place::GROUP], content.astype(np.int64)[other::GROUP])]
        if len(second)
    ]
    largest = max((one.max() for one in sums), default=0)
    assert LARGEST_ACTIVATION * largest <= LARGEST_INT16
    # Either limit is reached in each column.
    reached = np.maximum(
        np.abs(weights / scales).max(axis=0) / LARGEST_WEIGHT, largest_pair(weights / scales) / LARGEST_PAIR
    )
    assert reached == pytest.approx(np.ones(COLUMNS), rel=1e-5)


@pytest.mark.parametrize("prepacking", ["0", "1"])
@pytest.mark.parametrize("tokens", [1, 2, 7, 64])
def test_two_large_weights_anywhere_are_exact_on_this_cpu(tmp_path: Path, tokens: int, prepacking: str) -> None:
    """In column c, two weights of a group, or two neighbours of different groups, are the largest there can be."""
    pairs = [(one, other) for one in range(GROUP) for other in range(one + 1, GROUP)] + [(GROUP - 1, GROUP)]
    weights = np.zeros((WIDTH + 3, 2 * 2 * len(pairs)), np.float32)
    for column, (sign, group, pair) in enumerate(
        (sign, group, pair) for sign in (1, -1) for group in (0, WIDTH // GROUP - 2) for pair in pairs
    ):
        weights[[GROUP * group + place for place in pair], column] = sign
    content, scales = quantised(weights)
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_prepacking", prepacking)
    network = ort.InferenceSession(str(in_int8(product(tmp_path / "g", weights))), options)
    (got,) = network.run(None, {"x": np.ones((1, tokens, WIDTH + 3), np.float32)})
    expected = content.sum(axis=0, dtype=np.int64) * scales
    assert got == pytest.approx(np.broadcast_to(expected, got.shape), rel=1e-6)
    assert np.abs(expected).min() > 1.9


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_products_are_exact_on_this_cpu(tmp_path: Path, sign: int) -> None:
    """Full-range int8 weights are wrong by a half here on an AVX2 CPU without VNNI, and right on Arm."""
    weights = np.full((WIDTH, COLUMNS), sign, np.float32)
    x = np.ones((1, 3, WIDTH), np.float32)
    assert run(in_int8(product(tmp_path / "g", weights)), x) == pytest.approx(sign * WIDTH, rel=1e-6)


def test_the_product_is_what_integers_give(tmp_path: Path) -> None:
    """Held to NumPy's int64, so that it is the same number on every CPU."""
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((WIDTH, COLUMNS)).astype(np.float32)
    x = rng.standard_normal((2, 5, WIDTH)).astype(np.float32)
    content, scales = quantised(weights)
    step = LARGEST_ACTIVATION - ZERO_POINT
    magnitude = np.maximum(x.max(-1), -x.min(-1) * step / ZERO_POINT)[..., None]
    levels = np.rint(x / magnitude * step).astype(np.int64)
    expected = (levels @ content.astype(np.int64)) / step * scales * magnitude
    got = run(in_int8(product(tmp_path / "g", weights)), x)
    # A level at a half may be rounded either way.
    assert np.abs(got - expected).max() < 2 * np.abs(content * scales).max() * magnitude.max() / step
    assert np.median(np.abs(got - expected)) < 1e-5


@pytest.mark.parametrize(("activation", "zero"), [("Identity", ZERO_POINT), ("Gelu", GELU_ZERO_POINT)])
def test_int8_is_within_its_steps_of_float(tmp_path: Path, activation: str, zero: int) -> None:
    rng = np.random.default_rng(3)
    directory = product(tmp_path / "g", rng.standard_normal((WIDTH, COLUMNS)), activation)
    for scale in (1e-3, 1.0, 1e3):
        x = scale * rng.standard_normal((2, 5, WIDTH))
        exact, got = run(directory / GRAPH, x), run(in_int8_once(directory), x)
        assert np.abs(got - exact).max() < 0.05 * np.abs(exact).max()
    zeros = {
        numpy_helper.to_array(one).item()
        for one in onnx.load(in_int8_once(directory)).graph.initializer
        if one.data_type == TensorProto.UINT8
    }
    assert zeros == {zero}


def in_int8_once(directory: Path) -> Path:
    return directory / "int8" / GRAPH if (directory / "int8").exists() else in_int8(directory)


@pytest.mark.parametrize("x", [np.zeros((1, 2, WIDTH)), np.full((1, 2, WIDTH), -0.0), np.full((1, 2, WIDTH), -3.0)])
def test_tokens_without_a_positive_number_have_answers(tmp_path: Path, x: np.ndarray) -> None:
    weights = np.random.default_rng(4).standard_normal((WIDTH, COLUMNS))
    directory = product(tmp_path / "g", weights)
    assert run(in_int8(directory), x) == pytest.approx(
        run(directory / GRAPH, x), abs=0.05 * np.abs(weights).sum(0).max()
    )


def test_an_answer_depends_on_no_other_token(tmp_path: Path) -> None:
    """kserve/kserve#3438: a neighbour with large numbers must not take a text's precision away."""
    rng = np.random.default_rng(5)
    graph = in_int8(product(tmp_path / "g", rng.standard_normal((WIDTH, COLUMNS))))
    x = rng.standard_normal((4, 3, WIDTH))
    alone = run(graph, x[:1])
    x[1:] *= 1e6
    assert (run(graph, x)[:1] == alone).all()


def test_what_is_used_twice_is_quantised_once(tmp_path: Path) -> None:
    """ALBERT's layers share their weights, and queries, keys and values their tokens."""
    weights = np.random.default_rng(6).standard_normal((WIDTH, WIDTH)).astype(np.float32)
    directory = product(tmp_path / "g", weights)
    model = onnx.load(directory / GRAPH)
    del model.graph.node[:]
    model.graph.node.extend(
        [
            helper.make_node("MatMul", ["x", "w"], ["first"]),
            helper.make_node("MatMul", ["x", "w"], ["second"]),
            helper.make_node("Add", ["first", "second"], ["logits"]),
        ]
    )
    save_graph(model, directory)
    (graph,) = [onnx.load(in_int8(directory)).graph]
    assert [node.op_type for node in graph.node].count("QuantizeLinear") == 1
    assert [one.data_type for one in graph.initializer].count(TensorProto.INT8) == 2  # the weights, their zero points
    assert all(one.name != "w" for one in graph.initializer)


def test_a_weight_that_something_else_reads_too_stays(tmp_path: Path) -> None:
    weights = np.random.default_rng(7).standard_normal((WIDTH, WIDTH)).astype(np.float32)
    directory = product(tmp_path / "g", weights)
    model = onnx.load(directory / GRAPH)
    model.graph.node[1].output[0] = "products"
    model.graph.node.append(helper.make_node("Add", ["products", "w"], ["logits"]))
    save_graph(model, directory)
    x = np.random.default_rng(8).standard_normal((1, WIDTH, WIDTH))
    exact = run(directory / GRAPH, x)
    assert np.abs(run(in_int8(directory), x) - exact).max() < 0.05 * np.abs(exact).max()


def test_two_quantisations_give_the_same_bytes(tmp_path: Path) -> None:
    weights = np.random.default_rng(9).standard_normal((WIDTH, COLUMNS))
    graphs = [in_int8(product(tmp_path / name, weights)) for name in ("one", "two")]
    first, second = ([file.read_bytes() for file in sorted(graph.parent.iterdir())] for graph in graphs)
    assert first == second


def test_a_network_without_such_a_product_is_refused(tmp_path: Path) -> None:
    directory = product(tmp_path / "g", np.ones((2, 2)))
    model = onnx.load(directory / GRAPH)
    model.graph.node[1].op_type = "Add"
    save_graph(model, directory)
    with pytest.raises(ExportError, match=r'int8 gains nothing: set precision = "fp32"\.'):
        in_int8(directory)


def test_onnx_runtime_runs_it_without_a_word(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    graph = in_int8(product(tmp_path / "g", np.ones((WIDTH, COLUMNS))))
    ort.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    assert capfd.readouterr() == ("", "")
