"""Run the network, on no more cores than the machine gives this worker: in ONNX Runtime, or else in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from handlers.arrays import Float32Array

CPUINFO = Path("/proc/cpuinfo")
# ONNX Runtime's own names (onnxruntime_session_options_config_keys.h).
WEIGHTS_AS_THEY_LIE = "session.disable_prepacking"
BF16_PRODUCTS = "mlas.enable_gemm_fastmath_arm64_bfloat16"
GRAPH, PROGRAM = "model.onnx", "program.json"


def has_bf16(cpuinfo: Path = CPUINFO) -> bool:
    """Whether this is an Arm CPU with products of bf16 (Graviton3 and later), which ONNX Runtime uses there only."""
    try:
        features = [line for line in cpuinfo.read_text().splitlines() if line.startswith("Features")]
    except OSError:
        return False
    return bool(features) and all("bf16" in line.split() for line in features)


class Network(Protocol):
    """What a handler's `predict` calls."""

    def run(self, feeds: Mapping[str, npt.NDArray[Any]]) -> Float32Array:
        """Logits float32[B, labels] of one batch."""


def open_network(model_dir: Path, threads: int, precision: str = "fp32", *, share_weights: bool = False) -> Network:
    """The network of an archive, in the engine that its build chose: an ONNX graph, or a PyTorch program."""
    program = model_dir / PROGRAM
    if program.is_file():
        from handlers.program import Program  # torch: for these archives only

        return Program(program, threads)
    bf16 = precision == "bf16" and has_bf16()
    return Engine(model_dir / GRAPH, threads, bf16=bf16, share_weights=share_weights)


class Engine:
    """One ONNX graph, loaded for CPU. With `bf16` its float32 products are computed from operands rounded to bf16.

    Its weights are mapped from their file. ONNX Runtime copies those of products into the order that it multiplies
    fastest in, which costs their size in memory; with `share_weights` it does not, and workers share one copy.
    """

    def __init__(self, model: Path, threads: int, *, bf16: bool = False, share_weights: bool = False) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # An arena keeps what the largest batch needed for ever, and measures no faster.
        options.enable_cpu_mem_arena = False
        if share_weights:
            options.add_session_config_entry(WEIGHTS_AS_THEY_LIE, "1")
        if bf16:
            options.add_session_config_entry(BF16_PRODUCTS, "1")
        self._session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def run(self, feeds: Mapping[str, npt.NDArray[Any]]) -> Float32Array:
        """Logits float32[B, labels] of one batch."""
        (logits,) = self._session.run(["logits"], dict(feeds))
        return np.asarray(logits, dtype=np.float32)


def softmax(logits: Float32Array) -> Float32Array:
    """Probabilities along the last axis; the row's maximum is subtracted first, so nothing overflows."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True), dtype=np.float32)
