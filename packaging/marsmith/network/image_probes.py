"""Compare a checkpoint's image processor with an archive's handler, pixel by pixel, on pictures of several shapes."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from marsmith.errors import CheckpointError
from marsmith.ground.serving import ImageSettings
from marsmith.network.image_reference import ImageReference
from marsmith.network.prepared import Ask, refused
from marsmith.network.processor import class_name

# Of a value, or that share of one above 1: arithmetic in another order. One level of a pixel is 1e-2 and more.
TOLERANCE = 1e-4
PROBE_SEED = 31
# Pixels of the noise that pictures are enlarged from: smooth, with edges at no multiple of anything.
COARSE_WIDTH, COARSE_HEIGHT = 7, 5
# A side that is decoded at an eighth of its size, where the recipe has JPEGs decoded so.
LARGE = 17
LARGEST_SIDE = 4000


def check_images(reference: ImageReference, ask: Ask) -> None:
    """Raise CheckpointError where the handlers make other pixels than the checkpoint's image processor."""
    probes = dict(_probes(max(reference.settings.size)))
    inputs = [base64.b64encode(data).decode("ascii") for data in probes.values()]
    for (name, data), answer in zip(probes.items(), ask({"images": inputs}), strict=True):
        if "error" in answer:
            raise refused(name, answer["error"])
        if difference := _difference(reference, data, _pixels(answer)):
            raise CheckpointError(
                f"The image processor {class_name(reference.processor)} of {reference.path} cannot be carried by an "
                f"archive: of {name}, {difference}. Choose a checkpoint whose processor resizes, crops and normalises "
                "once each."
            )


def _difference(reference: ImageReference, data: bytes, pixels: np.ndarray) -> str | None:
    """Where the processor's values of an image file differ from those of the handler's pixels; None where nowhere."""
    made = reference.prepared(data)
    if made.keys() != {"pixel_values"}:
        return f"it makes {', '.join(sorted(made))}, where the handlers make pixel_values alone"
    expected = made["pixel_values"].numpy()[0]
    values = _normalised(pixels, reference.settings)
    if expected.shape != values.shape:
        return f"it makes values of the shape {list(expected.shape)}, and the handler {list(values.shape)}"
    worst = float((np.abs(expected - values) / np.maximum(1, np.abs(expected))).max())
    # Not a number is no agreement.
    return None if worst <= TOLERANCE else f"its values and the handler's differ by up to {worst:.2g}"


def _normalised(pixels: np.ndarray, settings: ImageSettings) -> np.ndarray:
    """float64[3, H, W]: what the graph makes of pixels uint8[H, W, 3] first (export.py, Images)."""
    mean, std = np.asarray(settings.mean), np.asarray(settings.std)
    values: np.ndarray = ((pixels * settings.rescale_factor - mean) / std).transpose(2, 0, 1)
    return values


def _pixels(answer: dict[str, Any]) -> np.ndarray:
    flat = np.frombuffer(base64.b64decode(answer["pixels"]), np.uint8)
    return flat.reshape(answer["shape"])


def _probes(side: int) -> Iterator[tuple[str, bytes]]:
    """Image files by what they are called; `side` is what the network's images are resized to, in pixels."""
    wide, high = side * 8 // 5 + 1, side * 6 // 5 + 3
    landscape = _picture(wide, high)
    yield "a landscape picture", _png(landscape)
    yield "a portrait picture", _png(_picture(high, wide))
    yield "a sliver", _png(_picture(4 * side, max(side // 3, 2)))
    yield "a tiny picture", _png(_picture(9, 6))
    yield "a picture of the network's own size", _png(_picture(side, side))
    yield "a grey picture", _png(landscape.convert("L"))
    yield "a black and white picture", _png(landscape.convert("1"))
    yield "a picture with a palette", _png(landscape.convert("P", palette=Image.Palette.ADAPTIVE))
    yield "a transparent picture", _png(_transparent(landscape))
    yield "a grey picture of 16 bits", _png(Image.fromarray(np.asarray(landscape.convert("L")).astype(np.uint16) * 257))
    large = min(LARGE * side, LARGEST_SIDE)
    yield "a large JPEG", _file(_picture(large, large * 3 // 4), "JPEG")


def _picture(width: int, height: int) -> Image.Image:
    noise = np.random.default_rng(PROBE_SEED).integers(0, 256, (COARSE_HEIGHT, COARSE_WIDTH, 3), np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


def _transparent(picture: Image.Image) -> Image.Image:
    layer = picture.copy()
    layer.putalpha(picture.convert("L"))
    return layer


def _png(picture: Image.Image) -> bytes:
    return _file(picture, "PNG")


def _file(picture: Image.Image, kind: str) -> bytes:
    picture.save(stream := io.BytesIO(), kind)
    return stream.getvalue()
