import json
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn

from training.bottleneck.kernels import GEMM, kernels_table, profile_kernels
from training.bottleneck.records import KERNELS


def test_the_kernels_of_a_step_are_ranked_by_their_own_time(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    network, inputs = nn.Linear(512, 512), torch.randn(256, 512)
    calls = []

    def step() -> None:
        calls.append(1)
        network(inputs).sum().backward()

    found = profile_kernels(step, tmp_path, steps=2, top=4)
    assert len(calls) == 3  # one before the profiler looks
    assert json.loads((tmp_path / KERNELS).read_text()) == found
    assert (found["steps"], found["device"], len(found["kernels"])) == (2, "cpu", 4)
    times = [row["self_s"] for row in found["kernels"]]
    assert times == sorted(times, reverse=True)
    assert times[-1] > 0
    assert sum(row["share"] for row in found["kernels"]) <= 1
    products = [row for row in found["kernels"] if GEMM.search(row["name"])]
    assert [row["calls"] for row in products if row["name"] == "aten::addmm"] == [2]
    assert found["gemm_share"] == pytest.approx(sum(row["share"] for row in products))


def test_a_table_shows_names_and_shares() -> None:
    row = {"name": "aten::addmm", "calls": 7, "self_s": 0.0123, "share": 0.456}
    console = Console(width=100)
    with console.capture() as capture:
        console.print(kernels_table({"device": "cpu", "steps": 3, "kernels": [row]}))
    for text in ("aten::addmm", "7", "12.3", "45.6%"):
        assert text in capture.get()


@pytest.mark.parametrize(
    ("name", "product"),
    [
        ("aten::mm", True),
        ("aten::baddbmm", True),
        ("aten::mkldnn_convolution", True),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", True),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16>", True),
        ("sm80_xmma_fprop_implicit_gemm_f32", True),
        ("aten::add_", False),
        ("aten::native_layer_norm", False),
        ("aten::_softmax", False),
    ],
)
def test_products_are_told_from_the_rest(name: str, product: bool) -> None:
    assert bool(GEMM.search(name)) is product
