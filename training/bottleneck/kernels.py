"""Which kernels take the time: torch.profiler over a few steps, written to `RUN/kernels.json`."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.table import Table
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from training.bottleneck.records import KERNELS, write_json

STEPS = 3
TOP = 15
US_PER_S = 1e6
# Matrix products and convolutions by PyTorch's names on CPU, and by those of cuBLAS, CUTLASS and cuDNN on GPU.
GEMM = re.compile(
    r"^aten::(mm|addmm|bmm|baddbmm|_addmm_activation|mkldnn_convolution|mkldnn_linear)$|^mkl(dnn)?::.*linear"
    r"|gemm|cutlass|nvjet|xmma|wgrad|dgrad|fprop",
    re.IGNORECASE,
)


def profile_kernels(step: Callable[[], object], folder: Path, steps: int = STEPS, top: int = TOP) -> dict[str, Any]:
    """Run `step` once unseen and `steps` times in the profiler; write and return the `top` kernels by self time.

    On CUDA these are the GPU's kernels, else PyTorch's operators on the CPU. `share` is of the time of all kernels, and
    so is `gemm_share`, that of matrix products and convolutions. Profiling slows the steps: keep them out of a report.
    """
    cuda = bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
    step()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with profile(activities=activities) as profiler:
        for _ in range(steps):
            step()
        if cuda:
            torch.cuda.synchronize()
    wanted = DeviceType.CUDA if cuda else DeviceType.CPU
    rows = []
    for event in profiler.key_averages():
        spent = event.self_device_time_total if cuda else event.self_cpu_time_total
        if event.device_type == wanted and not event.is_user_annotation and spent > 0:
            rows.append({"name": event.key, "calls": event.count, "self_s": spent / US_PER_S})
    total = sum(row["self_s"] for row in rows) or 1.0
    rows = [row | {"share": row["self_s"] / total} for row in sorted(rows, key=lambda row: -row["self_s"])]
    found = {
        "steps": steps,
        "device": "cuda" if cuda else "cpu",
        "gemm_share": sum(row["share"] for row in rows if GEMM.search(row["name"])),
        "kernels": rows[:top],
    }
    write_json(found, folder / KERNELS)
    return found


def kernels_table(found: dict[str, Any]) -> Table:
    """The kernels of a profile as a table."""
    table = Table(title=f"Kernels on {found['device']}, {found['steps']} steps", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("kernel", overflow="ellipsis", no_wrap=True, max_width=60)
    for title in ("calls", "self time, ms", "share"):
        table.add_column(title, justify="right")
    for row in found["kernels"]:
        table.add_row(row["name"], str(row["calls"]), f"{1000 * row['self_s']:.1f}", f"{row['share']:.1%}")
    return table
