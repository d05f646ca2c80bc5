"""Times one product of each precision on the emulated CPU that it runs on.

    python clock.py DIRECTORY TOKENS

DIRECTORY has a graph for each precision, whose input gets so many tokens. Prints a JSON object: CPU seconds of one
product by precision. It is run by itself in a container that has NumPy and ONNX Runtime, so it imports nothing of this
project.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

BF16_PRODUCTS = "mlas.enable_gemm_fastmath_arm64_bfloat16"
PRODUCTS = 3


def seconds(graph: Path, tokens: int, *, bf16: bool) -> float:
    """CPU seconds of one run, after another one: the least of several."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    if bf16:
        options.add_session_config_entry(BF16_PRODUCTS, "1")
    session = ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    channels = session.get_inputs()[0].shape[-1]
    feeds = {"x": np.ones((1, tokens, channels), np.float32)}
    session.run(None, feeds)
    taken = []
    for _ in range(PRODUCTS):
        begin = time.process_time()
        session.run(None, feeds)
        taken.append(time.process_time() - begin)
    return min(taken)


if __name__ == "__main__":
    graphs = sorted(Path(sys.argv[1]).iterdir())
    taken = {one.name: seconds(one / "model.onnx", int(sys.argv[2]), bf16=one.name == "bf16") for one in graphs}
    print(json.dumps(taken))  # noqa: T201 - a program
