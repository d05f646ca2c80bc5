import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification

from training.attention import NAME, attend_in_fp32


def test_attention_alone_leaves_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    config = ViTConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14
    )
    model = ViTForImageClassification(config).eval()
    seen = list[torch.dtype]()
    plain = torch.nn.functional.scaled_dot_product_attention

    def spy(query: torch.Tensor, *arguments: object, **keywords: object) -> torch.Tensor:
        seen.append(query.dtype)
        return plain(query, *arguments, **keywords)  # type: ignore[arg-type]

    pixels = torch.randn(1, 3, 28, 28)
    wanted = model(pixels).logits
    attend_in_fp32(model)
    assert torch.equal(model(pixels).logits, wanted)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(pixels).logits
    assert seen == [torch.float32]
    assert logits.dtype == torch.bfloat16
    assert NAME not in model.config.to_json_string()
