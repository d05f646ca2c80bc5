"""Channels of unlike size in int8: what is large takes no precision away."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from marsmith.network.export import GRAPH, save_graph
from marsmith.network.int8 import STEPS_PER_OCTAVE, smoothing
from tests.packaging.products import COLUMNS, WIDTH, in_int8, product, run


def uneven(tokens: int) -> np.ndarray:
    """Tokens with one channel a hundred times the others."""
    x = np.random.default_rng(10).standard_normal((1, tokens, WIDTH))
    x[..., 5] *= 100
    return x


def test_a_large_channel_does_not_take_the_others_precision_away(tmp_path: Path) -> None:
    """As DINOv2's have behind a normalisation: its weights are small in turn."""
    weights = np.random.default_rng(11).standard_normal((WIDTH, COLUMNS))
    weights[5] /= 100
    x = uneven(200)
    errors = []
    for name, seen in (("smooth", x), ("plain", None)):
        directory = product(tmp_path / name, weights)
        errors.append(np.abs(run(in_int8(directory, seen), x) - run(directory / GRAPH, x)).mean())
    assert errors[0] < errors[1] / 3


def test_even_channels_cost_nothing(tmp_path: Path) -> None:
    weights = np.random.default_rng(12).standard_normal((WIDTH, COLUMNS))
    graphs = [product(tmp_path / name, weights) for name in ("even", "uneven")]
    x = np.random.default_rng(13).standard_normal((1, 200, WIDTH))
    counts = [
        len(onnx.load(in_int8(graph, one)).graph.node) for graph, one in zip(graphs, (x, uneven(200)), strict=True)
    ]
    assert counts[1] == counts[0] + 1


def test_the_last_digit_of_what_is_observed_changes_nothing() -> None:
    """Another CPU adds in another order, and its archive has to be the same."""
    rng = np.random.default_rng(14)
    largest, rows = rng.lognormal(0, 2, 3072), rng.uniform(0.01, 1, 3072)
    found = [smoothing(largest * (1 + 1e-7 * rng.standard_normal(3072)), rows) for _ in range(20)]
    (same,) = {None if one is None else one.tobytes() for one in found}
    assert same is not None
    octaves = np.log2(np.frombuffer(same, np.float32))
    assert octaves * STEPS_PER_OCTAVE == pytest.approx(np.rint(octaves * STEPS_PER_OCTAVE), abs=1e-5)
    assert abs(octaves.mean()) < 0.5


def test_a_channel_that_was_silent_may_speak_later(tmp_path: Path) -> None:
    """ReLU's are: what it is divided by must not be next to nothing."""
    rng = np.random.default_rng(16)
    directory = product(tmp_path / "g", rng.standard_normal((WIDTH, COLUMNS)), "Relu")
    seen = np.abs(rng.standard_normal((1, 100, WIDTH))) * np.logspace(0, 2, WIDTH)
    seen[..., : WIDTH // 2] = -1
    graph = in_int8(directory, seen)
    later = seen.copy()
    later[..., 3] = 0.5
    for x in (seen, later):
        exact = run(directory / GRAPH, x)
        assert np.abs(run(graph, x) - exact).max() < 0.05 * np.abs(exact).max()


def test_a_pruned_matrix_has_finite_divisors() -> None:
    """More than half of its rows are zeros."""
    largest, rows = np.logspace(0, 2, WIDTH), np.where(np.arange(WIDTH) % 3, 0.0, 0.5)
    found = smoothing(largest, rows)
    assert found is not None
    assert np.isfinite(found).all()
    assert (found > 0).all()
    assert smoothing(largest, np.zeros(WIDTH)) is None


def test_what_was_silent_altogether_is_quantised_as_it_is() -> None:
    assert smoothing(np.zeros(WIDTH), np.ones(WIDTH)) is None


def test_a_matrix_of_several_layers_stays_one(tmp_path: Path) -> None:
    """ALBERT: what would be divided for one layer is not what another divides by."""
    directory = product(tmp_path / "g", np.random.default_rng(15).standard_normal((WIDTH, WIDTH)))
    model = onnx.load(directory / GRAPH)
    model.graph.node[1].output[0] = "once"
    model.graph.node.append(helper.make_node("MatMul", ["once", "w"], ["logits"]))
    save_graph(model, directory)
    x = uneven(20)
    exact = run(directory / GRAPH, x)
    graph = in_int8(directory, x)
    assert [one.data_type for one in onnx.load(graph).graph.initializer].count(TensorProto.INT8) == 2
    assert np.abs(run(graph, x) - exact).max() < 0.1 * np.abs(exact).max()
