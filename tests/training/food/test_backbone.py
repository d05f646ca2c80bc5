import pytest
import torch
from torch import Tensor
from transformers import Dinov2Config, Dinov2Model

from training.food.backbone import resize_positions, to_classifier

LABELS = ("Apple", "Sour Cream", "Red Beet")


@pytest.fixture
def backbone() -> Dinov2Model:
    """A random Dinov2 of 4 layers whose LayerScale is far from one, negative entries included."""
    torch.manual_seed(3)
    config = Dinov2Config(
        hidden_size=24,
        num_hidden_layers=4,
        num_attention_heads=3,
        mlp_ratio=2,
        image_size=56,
        patch_size=14,
        use_mask_token=False,
    )
    model = Dinov2Model(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model


def photos(side: int) -> Tensor:
    return torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("side", [56, 28, 70])
def test_the_folded_vit_computes_what_dinov2_computes(backbone: Dinov2Model, side: int) -> None:
    model = to_classifier(backbone, LABELS, side)
    with torch.inference_mode():
        wanted = backbone(photos(side)).last_hidden_state
        found = model.vit(photos(side)).last_hidden_state
    assert found.shape == (2, 1 + (side // 14) ** 2, 24)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_layer_scale_is_in_the_weights_and_the_biases(backbone: Dinov2Model) -> None:
    old, new = backbone.encoder.layer[2], to_classifier(backbone, LABELS, 56).vit.layers[2]
    scale1, scale2 = old.layer_scale1.lambda1, old.layer_scale2.lambda1
    assert torch.equal(new.attention.o_proj.weight, torch.diag(scale1) @ old.attention.o_proj.weight)
    assert torch.equal(new.attention.o_proj.bias, scale1 * old.attention.o_proj.bias)
    assert torch.equal(new.mlp.fc2.weight, torch.diag(scale2) @ old.mlp.fc2.weight)
    assert torch.equal(new.mlp.fc2.bias, scale2 * old.mlp.fc2.bias)


def test_the_new_head_answers_zero_for_every_label(backbone: Dinov2Model) -> None:
    model = to_classifier(backbone, LABELS, 28)
    assert model(photos(28)).logits.tolist() == [[0.0, 0.0, 0.0]] * 2
    assert model.config.id2label == {0: "Apple", 1: "Sour Cream", 2: "Red Beet"}
    assert model.config.label2id["Sour Cream"] == 1
    assert model.config.layer_norm_eps == backbone.config.layer_norm_eps == 1e-6


def test_an_image_size_that_cuts_a_patch_is_refused(backbone: Dinov2Model) -> None:
    with pytest.raises(ValueError, match="30 is not a multiple of the patch size 14"):
        to_classifier(backbone, LABELS, 30)


def test_positions_of_the_same_grid_are_untouched() -> None:
    positions = torch.randn(1, 17, 8)
    assert resize_positions(positions, 4) is positions


def test_a_constant_grid_stays_constant_and_the_class_token_keeps_its_embedding() -> None:
    positions = torch.full((1, 17, 2), 3.0)
    positions[:, 0] = -1.0
    resized = resize_positions(positions, 6)
    assert resized.shape == (1, 37, 2)
    assert resized[0, 0].tolist() == [-1.0, -1.0]
    torch.testing.assert_close(resized[:, 1:], torch.full((1, 36, 2), 3.0))


def test_rows_stay_rows_and_columns_stay_columns() -> None:
    row, column = torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij")
    positions = torch.cat([torch.zeros(1, 1, 2), torch.stack([row, column], -1).reshape(1, 16, 2)], dim=1)
    grid = resize_positions(positions, 2)[0, 1:].reshape(2, 2, 2)
    # Half-pixel centres 0.5 and 2.5 of the old grid; bicubic is not exact beside the border, but symmetric.
    assert torch.equal(grid[0, :, 0], grid[0, :1, 0].expand(2))
    assert torch.equal(grid[:, 0, 1], grid[:1, 0, 1].expand(2))
    assert grid[0, 0, 0] + grid[1, 0, 0] == pytest.approx(3.0)
    assert grid[0, 0, 0] == pytest.approx(0.5, abs=0.1)
