"""Attention in fp32 inside a bf16 network on a CPU.

PyTorch's bf16 attention has a backward pass on CPUs that is six times as slow as the one in fp32 (2.13, AVX512-BF16,
heads of 32): it took a quarter of a training step, half of what bf16 matrix products had gained.
"""

from __future__ import annotations

from typing import Any

import torch

NAME = "marsmith_fp32"


def attend_in_fp32(model: Any) -> None:
    """Let `model` attend in fp32 under autocast, where it attends with PyTorch's fused kernels at all."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    def attend(module: Any, query: Any, key: Any, value: Any, *arguments: Any, **keywords: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            found, weights = sdpa_attention_forward(
                module, query.float(), key.float(), value.float(), *arguments, **keywords
            )
        return found.to(query.dtype), weights

    if model.config._attn_implementation == "sdpa":
        AttentionInterface.register(NAME, attend)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)
