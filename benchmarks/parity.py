"""Whether the shipped archives answer as their checkpoints do when transformers runs them alone.

    python -m benchmarks.parity [--texts FILE] [--images DIR] [--limit N] [--json FILE] [--data NAME]

Both starter archives are built, and asked in TorchServe's real Python worker, in batches of mixed lengths and sizes.
The reference shares no code with the handlers: AutoTokenizer or AutoImageProcessor, then the model, one input at a
time. It decodes every pixel; so does the archive of the row `food`, built with decode = "full", and that of the row
`food, scaled` decodes as it is shipped.

FILE has one text a line, after a label and a tab if there is a tab; DIR is searched for pictures. Pictures with an ICC
profile are left out, because transformers does not look at it. Without either, `benchmarks.variety` gives 1,000 texts
and 200 pictures. The JSON file gets the results under the data's name, and keeps those of other data. The exit code is
1 where a probability differs by more than TOLERANCE, or the order of two that are further apart than that; of
`food, scaled` where more labels differ than SCALED_AGREEMENT allows.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from rich.console import Console
from rich.progress import track
from rich.table import Table
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

import marsmith
from benchmarks import variety
from marsmith.ground.files import atomic, read_lines
from marsmith.torchserve.worker import Worker, WorkerRequest

MODELS = Path(__file__).parents[1] / "models"
TEXTS, PICTURES = 1000, 200
SENTIMENT, FOOD, SCALED = "sentiment", "food", "food, scaled"
BUILT_IN = "built-in"
PACKAGES = ("marsmith", "onnxruntime", "torch", "transformers", "pillow")
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp"}
# Of a probability. Closer than that, the order of two labels is open.
TOLERANCE = 1e-4
# Of labels, where a JPEG is decoded at a fraction of its size.
SCALED_AGREEMENT = 0.995
BATCH = 16
TOP = 5
# Every label's score, and no threads that fight over cores which are busy with something else.
OPTIONS = {"MARSMITH_TOP_K": "1000", "MARSMITH_THREADS": "1"}

Scores = dict[str, float]

err = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Parity:
    """How far an archive is from its checkpoint."""

    inputs: int
    # The largest of each input's probabilities: its maximum and its mean over the inputs.
    max_difference: float
    mean_difference: float
    label_agreement: float
    top_5_agreement: float

    @property
    def ok(self) -> bool:
        """Whether nothing differs that is more than rounding."""
        return self.max_difference <= TOLERANCE and self.label_agreement == self.top_5_agreement == 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print a table and, if asked, write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", type=Path, help="a file of texts, one a line")
    parser.add_argument("--images", type=Path, help="a directory of pictures")
    parser.add_argument("--limit", type=int, help="as many of each, at random but the same in every run")
    parser.add_argument("--json", type=Path, help="write the results to this file, beside those of other data")
    parser.add_argument("--data", help=f"the data's name there, needed with --texts or --images; else {BUILT_IN}")
    options = parser.parse_args(arguments)
    own = options.texts or options.images
    if options.json and bool(own) != bool(options.data):
        parser.error("--json needs --data to name what --texts and --images hold, and only that")
    texts = read_texts(options.texts) if options.texts else variety.texts(TEXTS)
    pictures = read_pictures(options.images) if options.images else variety.pictures(PICTURES)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="marsmith-parity-") as scratch:
        result = compare(sample(texts, options.limit), sample(pictures, options.limit), Path(scratch))
    if options.json:
        merge(options.json, options.data or BUILT_IN, result, {SENTIMENT: len(texts), FOOD: len(pictures)})
    Console().print(table(result))
    return 0 if all(is_ok(name, parity) for name, parity in result.items()) else 1


def is_ok(name: str, parity: Parity) -> bool:
    """Whether the row is as its archive promises."""
    return parity.label_agreement >= SCALED_AGREEMENT if name == SCALED else parity.ok


def compare(texts: Sequence[str], pictures: Sequence[bytes], store: Path) -> dict[str, Parity]:
    """The rows by name; archives are built into `store`."""
    asked = [text_request(place, text) for place, text in enumerate(texts)]
    expected = answered(SENTIMENT, text_reference(), texts)
    rows = {SENTIMENT: judge(expected, archive_scores(marsmith.build(MODELS / SENTIMENT, store).path, asked))}
    asked = [WorkerRequest.raw(picture) for picture in pictures]
    expected = answered(FOOD, image_reference(), pictures)
    for name, recipe in ((FOOD, decoding_all(store)), (SCALED, MODELS / FOOD)):
        rows[name] = judge(expected, archive_scores(marsmith.build(recipe, store).path, asked))
    return rows


def decoding_all(scratch: Path) -> Path:
    """The recipe of the food starter with decode = "full"."""
    directory = shutil.copytree(MODELS / FOOD, scratch / "models" / FOOD)
    shutil.copy(MODELS / "nutrition.csv", directory.parent)
    recipe = directory / "recipe.toml"
    recipe.write_text('decode = "full"\n' + recipe.read_text(encoding="utf-8"), encoding="utf-8")
    return recipe


def merge(file: Path, data: str, result: dict[str, Parity], available: dict[str, int]) -> None:
    """Write results under the name of their data; `available` inputs there were, of which some may have been drawn."""
    report = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    models = {
        name: {"available": available[name.partition(",")[0]], **asdict(parity)} for name, parity in result.items()
    }
    report[data] = {**models, "versions": {name: version(name) for name in PACKAGES}}
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic(file) as stream:
        stream.write((json.dumps(report, indent=2) + "\n").encode("utf-8"))


def answered(name: str, reference: Callable[[Any], Scores], asked: Sequence[Any]) -> list[Scores]:
    """What the reference makes of each input."""
    return [reference(one) for one in track(asked, f"{name}: transformers", console=err)]


def judge(expected: Sequence[Scores], answers: Sequence[Scores]) -> Parity:
    """Each pair has the same labels, the answer's in its own order."""
    differences = [
        np.max([abs(found[label] - score) for label, score in wanted.items()])
        for wanted, found in zip(expected, answers, strict=True)
    ]
    pairs = list(zip(expected, answers, strict=True))
    return Parity(
        len(pairs),
        float(np.max(differences)),
        float(np.mean(differences)),
        *(float(np.mean([same_order(wanted, found, top) for wanted, found in pairs])) for top in (1, TOP)),
    )


def same_order(expected: Scores, answer: Scores, top: int) -> bool:
    """Whether the `top` first labels of the answer are the best in this order, but for scores closer than TOLERANCE."""
    best = sorted(expected.values(), reverse=True)[:top]
    return all(abs(expected[label] - score) <= TOLERANCE for label, score in zip(answer, best, strict=False))


def archive_scores(archive: Path, requests: Sequence[WorkerRequest]) -> list[Scores]:
    """Every label's score, best first, as the archive answers in TorchServe's worker."""
    found: list[Scores] = []
    with Worker(archive, OPTIONS) as worker:
        for begin in track(range(0, len(requests), BATCH), f"{archive.stem}: archive", console=err):
            for answer in worker.predict(requests[begin : begin + BATCH]):
                if answer.status != 200:
                    raise SystemExit(f"The archive answered {answer.status}: {answer.body.decode()}")
                found.append(scores_of(json.loads(answer.body)))
    return found


def scores_of(body: dict[str, Any]) -> Scores:
    """The scores of an answer of either archive, best first."""
    if "dishes" in body:
        return {dish["label"]: dish["score"] for dish in body["dishes"]}
    first = {body["label"]: body["score"]}
    return first | dict(sorted(body["scores"].items(), key=lambda item: item[1], reverse=True))


def text_request(place: int, text: str) -> WorkerRequest:
    """JSON and plain text by turns."""
    if place % 2:
        return WorkerRequest.raw(text.encode(), "text/plain; charset=utf-8")
    return WorkerRequest.raw(json.dumps({"text": text}).encode(), "application/json")


def text_reference() -> Callable[[str], Scores]:
    """What transformers makes of one text."""
    directory = MODELS / "sentiment"
    tokenizer = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
    model = AutoModelForSequenceClassification.from_pretrained(
        directory, dtype=torch.float32, trust_remote_code=False
    ).eval()

    def scores(text: str) -> Scores:
        return probabilities(model, tokenizer(masked(text), truncation=True, return_tensors="pt"))

    return scores


def masked(text: str) -> str:
    """The preprocessing that the public tweet models were trained with, from their model card."""
    words = ("@user" if word.startswith("@") and len(word) > 1 else word for word in text.split(" "))
    return " ".join("http" if word.startswith("http") else word for word in words)


def image_reference() -> Callable[[bytes], Scores]:
    """What transformers makes of one picture."""
    directory = MODELS / "food"
    processor = AutoImageProcessor.from_pretrained(directory, backend="pil", trust_remote_code=False)
    model = AutoModelForImageClassification.from_pretrained(
        directory, dtype=torch.float32, trust_remote_code=False
    ).eval()

    def scores(data: bytes) -> Scores:
        return probabilities(model, processor(images=rgb(data), return_tensors="pt"))

    return scores


def rgb(data: bytes) -> Image.Image:
    """The picture upright, on white, with 8 bits."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image) // 256).astype(np.uint8))
    if not image.has_transparency_data:
        return image.convert("RGB")
    pixels = np.asarray(image.convert("RGBA")).astype(np.float64)
    alpha = pixels[..., 3:] / 255
    return Image.fromarray((pixels[..., :3] * alpha + 255 * (1 - alpha)).round().astype(np.uint8))


def probabilities(model: Any, tensors: Any) -> Scores:
    """The softmax of one input's logits, by label."""
    with torch.inference_mode():
        scores = model(**tensors).logits[0].double().softmax(-1).tolist()
    return {model.config.id2label[index]: score for index, score in enumerate(scores)}


def read_texts(path: Path) -> list[str]:
    """The texts of a file's lines, without what stands before their first tab."""
    return [text for line in read_lines(path) if (text := line.split("\t", 1)[-1]).strip()]


def read_pictures(directory: Path) -> list[bytes]:
    """The picture files below a directory that have no ICC profile."""
    files = (path.read_bytes() for path in sorted(directory.rglob("*")) if path.suffix.lower() in SUFFIXES)
    return [data for data in files if "icc_profile" not in Image.open(io.BytesIO(data)).info]


def sample(things: Iterable[Any], limit: int | None) -> list[Any]:
    """All of them, or `limit` drawn at random, in an order that mixes the kinds."""
    drawn = list(things)
    random.Random(variety.SEED).shuffle(drawn)  # noqa: S311 - no secrets here
    return drawn[:limit]


def table(result: dict[str, Parity]) -> Table:
    """The figures by model."""
    shown = Table(*("", "inputs", "largest difference", "mean difference", "label agrees", "top 5 agree"))
    for name, one in result.items():
        differences = (f"{value:.1e}" for value in (one.max_difference, one.mean_difference))
        shown.add_row(name, str(one.inputs), *differences, f"{one.label_agreement:.2%}", f"{one.top_5_agreement:.2%}")
    return shown


if __name__ == "__main__":
    raise SystemExit(main())
