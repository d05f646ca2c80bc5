"""How an image becomes the network's pixels: what a checkpoint's image processor does, as plain settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoImageProcessor

from marsmith.errors import CheckpointError, first_line
from marsmith.serving import Decode, ImageSettings

# ConvNeXt warps images to a square from this size on, and crops them below (transformers, ConvNextImageProcessor).
CONVNEXT_WARPS_FROM = 384


def image_settings(path: Path, decode: Decode) -> ImageSettings:
    """What preprocessor_config.json asks for, with its class's defaults, of images decoded like that.

    Raises CheckpointError.
    """
    try:
        processor = AutoImageProcessor.from_pretrained(path, local_files_only=True, backend="pil")
        if not processor.do_resize:
            raise ValueError("it does not resize, so images differ in size")
        if getattr(processor, "do_flip_channel_order", False):
            raise ValueError("it turns RGB into BGR, which the handlers do not")
        normalised = processor.do_normalize
        return ImageSettings(
            **_geometry(processor),
            resample=int(processor.resample),
            rescale_factor=processor.rescale_factor if processor.do_rescale else 1.0,
            mean=tuple(processor.image_mean) if normalised else (0.0, 0.0, 0.0),
            std=tuple(processor.image_std) if normalised else (1.0, 1.0, 1.0),
            scaled_decode=decode == "scaled",
        )
    except Exception as error:  # transformers raises nearly every type here
        raise CheckpointError(f"The image processor of {path} cannot be used: {first_line(error)}.") from None


def _geometry(processor: Any) -> dict[str, Any]:
    """The keys `size`, `shortest_edge` and `crop` of the settings. Raises ValueError."""
    edge, crop = processor.size.shortest_edge, processor.crop_size if processor.do_center_crop else None
    if type(processor).__name__.startswith("ConvNext") and edge:
        if crop is not None:
            raise ValueError("it crops twice")
        if edge >= CONVNEXT_WARPS_FROM:
            return {"size": (edge, edge)}
        resized = int(edge / processor.crop_pct)
        return {"size": (resized, resized), "shortest_edge": resized, "crop": (edge, edge)}
    if edge:
        if crop is None:
            raise ValueError("it resizes the shortest edge but does not crop, so images differ in size")
        return {"size": (edge, edge), "shortest_edge": edge, "crop": (crop.height, crop.width)}
    size = processor.size.height, processor.size.width
    if None in size:
        raise ValueError("it does not resize to a fixed size or shortest edge")
    return {"size": size, "crop": (crop.height, crop.width) if crop else None}
