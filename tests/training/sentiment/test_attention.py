"""Attention in fp32 inside a bf16 network: same answers, and nothing of it in what is saved."""

import copy
from pathlib import Path
from typing import Any

import torch

from training.attention import NAME, attend_in_fp32
from training.sentiment import LABELS
from training.sentiment.base import load

IDS = torch.tensor([[2, 9, 10, 3], [2, 11, 3, 0]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])


def logits_and_gradient(model: Any, *, bf16: bool) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        logits = model.eval()(input_ids=IDS, attention_mask=MASK).logits
    logits.float().square().sum().backward()
    return logits.detach().float(), model.get_input_embeddings().weight.grad


def test_answers_and_gradients_stay_those_of_the_network(base: Path) -> None:
    plain = load(str(base), LABELS).model
    changed = copy.deepcopy(plain)
    attend_in_fp32(changed)
    assert changed.config._attn_implementation == NAME
    expected = logits_and_gradient(plain, bf16=False)
    plain.zero_grad()
    torch.testing.assert_close(logits_and_gradient(changed, bf16=False), expected)
    changed.zero_grad()
    for found, exact in zip(logits_and_gradient(changed, bf16=True), expected, strict=True):
        assert (found - exact).norm() < 0.05 * exact.norm()


def test_a_saved_network_does_not_ask_for_it(base: Path, tmp_path: Path) -> None:
    model = load(str(base), LABELS).model
    attend_in_fp32(model)
    model.save_pretrained(tmp_path)
    assert NAME not in (tmp_path / "config.json").read_text("utf-8")
    assert load(str(base), LABELS).model.config._attn_implementation == "sdpa"
