"""What the network of an unpacked archive would be fed: `python -m handlers.prepare MODEL_DIR OUT < INPUTS`.

The build compares it with what the checkpoint's own tokenizer or image processor makes of the same inputs. No server
calls this. INPUTS and OUT are JSON: {"texts": [string, …]} becomes for each text a list of windows, each an object of
the network's inputs by name, and {"images": [base64, …]} for each image file {"shape": [H, W, 3], "pixels": base64}.
An input that the handlers refuse becomes {"error": message}.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from handlers.batching import batches
from handlers.errors import RequestError
from handlers.settings import Settings, SettingsError


def prepare(model_dir: Path, inputs: dict[str, list[str]]) -> list[Any]:
    """What the handlers make of each input, in order, with the settings of an archive's model/ directory."""
    settings = Settings.load(model_dir / "serving.json", environ={})
    if "texts" in inputs:
        return _each(_text_preparer(model_dir, settings), inputs["texts"])
    return _each(_image_preparer(settings), inputs["images"])


def _each(one: Callable[[str], Any], inputs: Iterable[str]) -> list[Any]:
    def answered(value: str) -> Any:
        try:
            return one(value)
        except RequestError as error:
            return {"error": str(error)}

    return [answered(value) for value in inputs]


def _text_preparer(model_dir: Path, settings: Settings) -> Callable[[str], Any]:
    from handlers.text import TextEncoder  # an image archive requires no tokenizers, a text archive no Pillow

    text = settings.text
    if text is None:
        raise SettingsError("serving.json has no text section")
    # Of a text that is refused as too long, the ids are those of one that is truncated.
    long_text = text.long_text if text.long_text != "error" else "truncate"
    encoder = TextEncoder.of(model_dir, text, long_text, settings.options.max_windows)

    def prepared(value: str) -> list[dict[str, Any]]:
        feeds = []
        for ids in encoder.encode(value).windows:
            ((_, batch),) = batches([ids], settings.options.token_budget, text)
            feeds.append({name: array.tolist() for name, array in batch.feeds().items()})
        return feeds

    return prepared


def _image_preparer(settings: Settings) -> Callable[[str], Any]:
    from handlers.image import least_side, open_image, resize

    image = settings.image
    if image is None:
        raise SettingsError("serving.json has no image section")

    def prepared(value: str) -> dict[str, Any]:
        opened = open_image(base64.b64decode(value), settings.options.max_pixels, least_side(image))
        pixels = resize(opened, image)
        return {"shape": list(pixels.shape), "pixels": base64.b64encode(pixels.tobytes()).decode("ascii")}

    return prepared


def main() -> None:
    """Answer what stands on standard input."""
    model_dir, out = map(Path, sys.argv[1:])
    out.write_text(json.dumps(prepare(model_dir, json.load(sys.stdin))), encoding="utf-8")


if __name__ == "__main__":
    main()
