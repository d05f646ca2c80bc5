"""The thread plan, the ONNX session and softmax."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies
from onnx import TensorProto, helper, numpy_helper

from handlers.engine import Engine, has_bf16, softmax


@pytest.fixture
def doubling(tmp_path: Path) -> Path:
    """A graph whose logits, in float64, are twice its input; a second output must not disturb."""
    inputs = [helper.make_tensor_value_info("pixel_values", TensorProto.DOUBLE, ["batch", 2])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["batch", 2]) for name in ("other", "logits")]
    nodes = [
        helper.make_node("Add", ["pixel_values", "pixel_values"], ["logits"]),
        helper.make_node("Neg", ["pixel_values"], ["other"]),
    ]
    graph = helper.make_graph(nodes, "doubling", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_run_gives_the_logits_as_float32(doubling: Path) -> None:
    logits = Engine(doubling, 1).run({"pixel_values": np.array([[1.0, -2.0], [0.5, 4.0], [0.0, 3.0]])})
    assert logits.dtype == np.float32
    assert logits.tolist() == [[2.0, -4.0], [1.0, 8.0], [0.0, 6.0]]


@pytest.mark.parametrize("threads", [1, 3])
def test_the_session_has_the_threads_of_the_plan(doubling: Path, threads: int) -> None:
    options = Engine(doubling, threads)._session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (threads, 1)


GRAVITON2 = "processor\t: {}\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm aes crc32 atomics fphp asimdhp asimddp\n"
GRAVITON3 = "processor\t: {}\nBogoMIPS\t: 2100.00\nFeatures\t: fp asimd asimddp sve i8mm bf16 dgh rng\n"
EPYC = "processor\t: {}\nflags\t\t: fpu avx2 avx512_bf16 amx_bf16\n"


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        ((), False),
        ((GRAVITON2, GRAVITON2), False),
        ((GRAVITON3, GRAVITON3), True),
        ((GRAVITON3, GRAVITON2), False),  # a big core and a little one
        ((EPYC,), False),
    ],
)
def test_bf16_products_need_an_arm_cpu_with_them(tmp_path: Path, cores: tuple[str, ...], expected: bool) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("\n".join(core.format(number) for number, core in enumerate(cores)))
    assert has_bf16(cpuinfo) is expected
    assert has_bf16(tmp_path / "missing") is False


def test_bf16_products_where_there_are_none_change_nothing(doubling: Path) -> None:
    """On an x86-64 CPU, and on one of Arm's without them."""
    feeds = {"pixel_values": np.array([[1.0, 2.0]])}
    answers = [Engine(doubling, 1, bf16=bf16).run(feeds).tolist() for bf16 in (False, True)]
    assert answers == [[[2.0, 4.0]]] * 2


SIDE = 4096
MATRIX_BYTES = 4 * SIDE * SIDE
MEASURE = """
import sys
from pathlib import Path
import numpy as np
from handlers.engine import Engine

def own_bytes():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))

feeds = {"x": np.ones((2, int(sys.argv[3])), np.float32)}
before = own_bytes()
engine = Engine(Path(sys.argv[1]), 1, share_weights=sys.argv[2] == "yes")
assert (engine.run(feeds) == int(sys.argv[3])).all()
print(own_bytes() - before)
"""


def test_shared_weights_are_no_memory_of_the_workers_own(tmp_path: Path) -> None:
    """pytorch/serve#1138"""
    ones = numpy_helper.from_array(np.ones((SIDE, SIDE), np.float32), "ones")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "ones"], ["logits"])],
        "sums",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", SIDE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", SIDE])],
        [ones],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="model.weights")
    command = [sys.executable, "-c", MEASURE, str(path)]
    root = Path(__file__).parents[2]
    own, shared = (
        int(subprocess.run([*command, share, str(SIDE)], cwd=root, capture_output=True, check=True).stdout)
        for share in ("no", "yes")
    )
    assert own > 0.9 * MATRIX_BYTES
    assert shared < 0.3 * MATRIX_BYTES


def test_a_missing_graph_is_named(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"model\.onnx"):
        Engine(tmp_path / "model.onnx", 1)


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ([0.0, 0.0], [0.5, 0.5]),
        ([np.log(1), np.log(2), np.log(5)], [0.125, 0.25, 0.625]),
        ([1e30, 1e30, -1e30], [0.5, 0.5, 0.0]),
        ([3.4e38, -3.4e38], [1.0, 0.0]),
        ([1000.0, 999.0], [0.7310586, 0.2689414]),
        ([-1e5], [1.0]),
    ],
)
def test_softmax_of_any_logits(logits: list[float], expected: list[float]) -> None:
    with np.errstate(invalid="raise", divide="raise", over="ignore"):
        probabilities = softmax(np.array(logits, np.float32))
    assert probabilities.tolist() == pytest.approx(expected, abs=1e-6)


def test_softmax_takes_each_row_by_itself() -> None:
    rows = softmax(np.array([[0.0, 0.0], [1e6, 0.0], [-50.0, 50.0]], np.float32))
    assert rows.dtype == np.float32
    assert rows == pytest.approx(np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]), abs=1e-6)


@given(numpy_strategies.arrays(np.float32, (3, 4), elements=st.floats(-(2.0**99), 2.0**99, width=32)))
def test_softmax_is_a_distribution_that_keeps_the_best(logits: np.ndarray) -> None:
    rows = softmax(logits)
    assert np.isfinite(rows).all()
    assert rows.min() >= 0
    assert rows.sum(axis=-1) == pytest.approx(np.ones(3), abs=1e-5)
    for row, scores in zip(logits, rows, strict=True):
        assert scores[row.argmax()] == scores.max()
