"""How an image becomes the network's pixels: what a checkpoint's image processor does, as plain settings."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from marsmith.ground.serving import Decode, ImageSettings
from marsmith.network.pretrained import guarded, load_image_processor

# ConvNeXt warps images to a square from this size on, and crops them below (transformers, ConvNextImageProcessor).
CONVNEXT_WARPS_FROM = 384
# LeViT resizes to this much more than it crops (transformers, LevitImageProcessor).
LEVIT_RATIO = 256 / 224
# Pixels of a side, at most: the handlers resize to 64 million pixels at most (handlers/image.py, MAX_RESIZED_PIXELS).
MAX_SIDE = 8_000


def image_settings(path: Path, decode: Decode) -> ImageSettings:
    """What preprocessor_config.json asks for, with its class's defaults, of images decoded like that.

    The settings are what the processor says of itself; image_probes.py compares what both make of pictures. Raises
    CheckpointError.
    """
    processor = load_image_processor(path)
    with guarded(f"The image processor {class_name(processor)} of {path} cannot be used"):
        if not getattr(processor, "do_resize", False):
            raise ValueError("it does not resize, so images differ in size")
        if getattr(processor, "do_flip_channel_order", False):
            raise ValueError("it turns RGB into BGR, which the handlers do not")
        return _checked(
            {
                **_geometry(processor),
                **_affine(processor),
                "resample": int(processor.resample),
                "scaled_decode": decode == "scaled",
            }
        )


def _checked(values: dict[str, Any]) -> ImageSettings:
    """The settings of these values. Raises ValueError for values that make no picture."""
    for side in [*values["size"], *(values["crop"] or ())]:
        if not 1 <= side <= MAX_SIDE:
            raise ValueError(f"it resizes or crops to {side} pixels, where a side has 1 to {MAX_SIDE:,}")
    if not all(math.isfinite(one) and one for one in (values["rescale_factor"], *values["std"])):
        raise ValueError("its rescale_factor or image_std is 0, or not finite")
    try:
        return ImageSettings(**values)
    except ValidationError as error:
        keys = ", ".join(sorted({str(one["loc"][0]) for one in error.errors()}))
        raise ValueError(f"the handlers cannot use its values of {keys}") from None


def class_name(processor: Any) -> str:
    """The class that the checkpoint names; Pil is transformers' word for the library that it runs on here."""
    return type(processor).__name__.removesuffix("Pil")


def _affine(processor: Any) -> dict[str, Any]:
    """The keys `rescale_factor`, `mean` and `std` of the settings: what becomes of a pixel's number."""
    factor = processor.rescale_factor if processor.do_rescale else 1.0
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    if processor.do_normalize:
        mean, std = tuple(processor.image_mean), tuple(processor.image_std)
    if processor.do_rescale and getattr(processor, "rescale_offset", False):
        mean = tuple(value + 1 for value in mean)
    if getattr(processor, "include_top", False):
        # EfficientNet divides by the standard deviation once more.
        std = tuple(value * again for value, again in zip(std, processor.image_std, strict=True))
    return {"rescale_factor": factor, "mean": mean, "std": std}


def _geometry(processor: Any) -> dict[str, Any]:
    """The keys `size`, `shortest_edge` and `crop` of the settings. Raises ValueError."""
    if processor.size is None:
        raise ValueError("it has no size")
    edge = processor.size.shortest_edge
    crop = processor.crop_size if getattr(processor, "do_center_crop", False) else None
    if crop is not None and not (crop.height and crop.width):
        raise ValueError("it crops to something other than a height and a width")
    name = class_name(processor)
    if name.startswith("ConvNext") and edge:
        if crop is not None:
            raise ValueError("it crops twice")
        if edge >= CONVNEXT_WARPS_FROM:
            return {"size": (edge, edge), "crop": None}
        resized = int(edge / processor.crop_pct)
        return {"size": (resized, resized), "shortest_edge": resized, "crop": (edge, edge)}
    if name.startswith("Levit") and edge:
        edge = int(LEVIT_RATIO * edge)
    if name.startswith("PoolFormer") and processor.crop_pct is not None:
        if not edge and processor.size.height != processor.size.width:
            raise ValueError("it resizes by two edges at once")
        edge = int((edge or processor.size.height) / processor.crop_pct)
    if edge:
        if crop is None:
            raise ValueError("it resizes the shortest edge but does not crop, so images differ in size")
        return {"size": (edge, edge), "shortest_edge": edge, "crop": (crop.height, crop.width)}
    size = processor.size.height, processor.size.width
    if None in size:
        raise ValueError("it does not resize to a fixed size or shortest edge")
    return {"size": size, "crop": (crop.height, crop.width) if crop else None}
