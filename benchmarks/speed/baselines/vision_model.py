"""B2: the network for TorchServe's own `image_classifier`, which makes it without arguments and loads a state dict."""

from pathlib import Path

from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification


class VisionModel(nn.Module):
    """A ViT as a function of its pixels alone, of the shape that the config.json beside this file says."""

    def __init__(self) -> None:
        super().__init__()
        self.network = ViTForImageClassification(ViTConfig.from_json_file(Path(__file__).with_name("config.json")))

    def forward(self, pixels: Tensor) -> Tensor:
        """Logits float32[B, labels] of pixels float32[B, 3, H, W]."""
        logits: Tensor = self.network(pixel_values=pixels).logits
        return logits
