"""Attention in fp32 inside a bf16 network on a CPU.

There, PyTorch's bf16 attention has a backward pass that is several times as slow as the one in fp32 (2.13,
AVX512-BF16): it eats up most of what bf16 matrix products gain.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

NAME = "marsmith_fp32"


def attend_in_fp32(model: PreTrainedModel) -> None:
    """Let `model` attend in fp32 under autocast, where it attends with PyTorch's fused kernels at all."""

    def attend(module: Any, query: Any, key: Any, value: Any, *arguments: Any, **keywords: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            found, weights = sdpa_attention_forward(
                module, query.float(), key.float(), value.float(), *arguments, **keywords
            )
        return found.to(query.dtype), weights

    if model.config._attn_implementation == "sdpa":
        AttentionInterface.register(NAME, attend)
        model.set_attn_implementation(NAME)
