"""The limit: how fast this machine multiplies matrices, and so how many answers a second no server can pass.

    python -m benchmarks.speed.limit THREADS

prints `{"fp32": …, "int8": …}` in operations a second: the best of several large products, PyTorch's for float32, and
ONNX Runtime's MatMulInteger (unsigned by signed bytes, as its dynamic quantisation runs) for int8.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Far larger than any cache, so that the arithmetic is what takes the time.
SIDE = 2048
REPEATS = 5
OPERATIONS = 2.0 * SIDE**3
ROOT = Path(__file__).parents[2]


def peaks(threads: int) -> dict[str, float]:
    """Operations a second by precision, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.speed.limit", str(threads)]
    result = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    measured: dict[str, float] = json.loads(result.stdout)
    return measured


def best(product: Callable[[], Any]) -> float:
    """Operations a second of the fastest of REPEATS products."""
    product()
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        product()
        seconds.append(time.perf_counter() - begin)
    return OPERATIONS / min(seconds)


def fp32(threads: int) -> float:
    """PyTorch's float32 product."""
    import torch

    torch.set_num_threads(threads)
    left, right = torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE)
    return best(lambda: torch.mm(left, right))


def int8(threads: int) -> float:
    """ONNX Runtime's integer product by a constant matrix, as a layer's weights are."""
    import numpy as np
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = numpy_helper.from_array(rng.integers(-128, 128, (SIDE, SIDE), np.int8), "weights")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["left", "weights"], ["product"])],
        "limit",
        [helper.make_tensor_value_info("left", TensorProto.UINT8, [SIDE, SIDE])],
        [helper.make_tensor_value_info("product", TensorProto.INT32, [SIDE, SIDE])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    left = {"left": rng.integers(0, 256, (SIDE, SIDE), np.uint8)}
    return best(lambda: session.run(None, left))


if __name__ == "__main__":
    print(json.dumps({"fp32": fp32(int(sys.argv[1])), "int8": int8(int(sys.argv[1]))}))  # noqa: T201
