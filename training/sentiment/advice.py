"""What compiling, bf16 and the fused optimizer can and cannot gain on a machine, in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

BF16_FEATURES = ("amx_bf16", "avx512_bf16", "bf16")  # of x86-64, and of Arm
QUIET = 0.5  # share of the cores that others may use


def advice(result: Mapping[str, Any]) -> list[str]:
    """A sentence or two for each variant, from the hardware and from what was measured."""
    machine = result["hardware"]
    words = _on_gpu(machine) if machine["gpus"] else _on_cpu(machine)
    return [
        f"compile: {words['compile']} Measured: {_gain(result, '+compile')}; {_payback(result)}",
        f"bf16: {words['bf16']} Measured: {_gain(result, '+bf16')}.",
        f"fused: {words['fused']} Measured: {_gain(result, '+fused')}.",
        *_busy(result),
    ]


def _on_cpu(machine: Mapping[str, Any]) -> dict[str, str]:
    has = [name for name in BF16_FEATURES if name in machine["features"]]
    if has:
        bf16 = (
            f"This CPU multiplies bf16 matrices itself ({', '.join(has)}), so the products can be up to twice as fast"
            f"{' or more' if 'amx_bf16' in has else ''}; layer norms, softmax and the optimizer stay in fp32 and do "
            "not gain."
        )
    else:
        bf16 = "This CPU has no bf16 arithmetic (avx512_bf16, amx_bf16 or Arm's bf16): it emulates it, which is slower."
    return {
        "compile": (
            "On a CPU it fuses what lies between the matrix products (activations, layer norms, dropout) and cannot "
            "speed up the products themselves, which are most of the work."
        ),
        "bf16": bf16,
        "fused": (
            "On a CPU it updates each parameter in one pass over memory instead of several; it can gain no more than "
            "the optimizer's share of a step, which is small unless batches are small."
        ),
    }


def _on_gpu(machine: Mapping[str, Any]) -> dict[str, str]:
    return {
        "compile": "On a GPU it fuses kernels and saves launches, which counts most where batches are small.",
        "bf16": f"On {machine['gpus'][0]} it moves the matrix products to the tensor cores, if that has any for bf16.",
        "fused": "On a GPU it updates all parameters in a few kernels instead of several for each group of tensors.",
    }


def _gain(result: Mapping[str, Any], name: str) -> str:
    baseline, one = result["variants"]["baseline"], result["variants"][name]
    words = _change(one["speed_up"], "faster", "slower")
    if result["hardware"]["gpus"]:
        return words
    work = _change(one["cpu_seconds_per_step"] / baseline["cpu_seconds_per_step"], "more", "less")
    return f"{words}, {work} work for the CPU"


def _change(ratio: float, above: str, below: str) -> str:
    return f"{abs(ratio - 1):.0%} {above if ratio >= 1 else below}"


def _busy(result: Mapping[str, Any]) -> list[str]:
    """A caution where other processes took part of the cores."""
    load, cores = result["load_average"], result["hardware"]["cores"]
    if load <= QUIET * cores:
        return []
    return [
        f"The machine was busy (load {load:.1f} on {cores} cores) when this began: compare the CPU's seconds a step, "
        "or measure again when it is quiet, with --rounds 3."
    ]


def _payback(result: Mapping[str, Any]) -> str:
    """After how many steps the time for compiling is won back."""
    plain, compiled = result["variants"]["baseline"], result["variants"]["+compile"]
    cost = compiled["warm_up_seconds"] - plain["warm_up_seconds"]
    saved = 1 / plain["steps_per_second"] - 1 / compiled["steps_per_second"]
    if cost <= 0:
        return "compiling cost no time."
    if saved <= 0:
        return f"compiling cost {cost:.0f} s, which no number of steps wins back."
    return f"compiling cost {cost:.0f} s, won back after {math.ceil(cost / saved):,} steps."
