"""The starters in every precision, as an x86-64 machine builds them and answers their golden requests.

Where products are emulated slowly they have fewer samples, and then fewer layers: the same operators all the same.
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file

from marsmith.builder import build
from marsmith.evidence import replay
from marsmith.ground.serving import Precision
from marsmith.recipe.recipe import AccuracyLimits, Recipe
from tests.arm64.emulation import PRECISIONS, Emulation
from tests.arm64.tools import ROOT

STARTERS = ("sentiment", "food")
# Multiply-adds of one layer for one sample: of the weights of its products, for each token. A text has some 20 tokens,
# a picture of 140 pixels 100 patches and one token more.
LAYER_MACS = {"sentiment": 20 * (4 * 384 * 384 + 2 * 384 * 1536), "food": 101 * (4 * 192 * 192 + 2 * 192 * 749)}
# More pictures prove no more.
MOST_SAMPLES = {"sentiment": 5, "food": 3}
# All of the food starter's labels, so that every score is compared.
EVERY_LABEL = 43
# Answers in fp32 and in bf16 are compared with each other too, so both come from the same network.
COMPARED: Mapping[Precision, Sequence[Precision]] = {
    "fp32": ("fp32", "bf16"),
    "bf16": ("fp32", "bf16"),
    "int8": ("int8",),
}
LAYER = re.compile(r"\.layer\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Archive:
    """One archive, and what x86-64 answers to its golden requests, by their names; `network` says how much of it."""

    starter: str
    precision: Precision
    path: Path
    network: str
    answers: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The model's name at the server."""
        return self.path.stem


@dataclass(frozen=True, slots=True)
class Size:
    """How much of a starter is built: its first samples and its first layers, of so many."""

    samples: int
    layers: int
    of_layers: int

    @classmethod
    def of(cls, starter: str, affordable_macs: float, of_layers: int) -> "Size":
        """As many samples of all layers as cost no more, or one of fewer layers; at least one of one."""
        affordable_layers = int(affordable_macs // LAYER_MACS[starter])
        samples = min(MOST_SAMPLES[starter], max(1, affordable_layers // of_layers))
        return cls(samples, min(of_layers, max(1, affordable_layers // samples)), of_layers)

    def __str__(self) -> str:
        return f"{self.layers} of {self.of_layers} layers"


def archives(directory: Path, emulation: Emulation) -> Iterator[Archive]:
    """Build each starter in each precision into a directory of the precision's name, and ask it."""
    for precision in PRECISIONS:
        for starter in STARTERS:
            recipe, size = changed(starter, precision, directory / "changed", emulation)
            path = build(recipe, directory / precision).path
            outcomes = replay.in_worker(path)
            answers = {one.name: one.prediction.body for one in outcomes}
            yield Archive(starter, precision, path, str(size), answers)


def changed(starter: str, precision: Precision, scratch: Path, emulation: Emulation) -> tuple[Recipe, Size]:
    """The starter's recipe in another precision, under a name of its own, as large as can be afforded."""
    source = ROOT / "models" / starter
    recipe = Recipe.load(source)
    of_layers = json.loads((source / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"]
    size = Size.of(starter, min(emulation.affordable(one) for one in COMPARED[precision]), of_layers)
    own = scratch / f"{starter}-{precision}"
    shallow(source, own, size.layers)
    samples = recipe.samples[: size.samples]
    if size.layers < size.of_layers:  # which learned nothing: only the same on both CPUs
        samples = [one.model_copy(update={"expect": None}) for one in samples]
    # int8 is compared on its own samples, whose answers here are all that matters.
    inputs = source / "samples"
    if starter == "sentiment":
        inputs = own / "texts.txt"
        inputs.write_text("".join(f"{sample.text}\n" for sample in recipe.samples), encoding="utf-8")
    limits = AccuracyLimits(inputs=inputs, min_label_agreement=0, max_probability_change=1)
    serving = {"response_timeout_s": emulation.timeout_s, "startup_timeout_s": emulation.timeout_s}
    changes = {
        "name": f"{starter}-{precision}",
        "checkpoint": str(own),
        "precision": precision,
        "accuracy": limits if precision == "int8" else None,
        "top_k": EVERY_LABEL,
        "samples": samples,
        "serving": recipe.serving.model_copy(update=serving),
    }
    return recipe.model_copy(update=changes), size


def shallow(source: Path, out: Path, layers: int) -> None:
    """A copy of a starter's checkpoint with its first layers only."""
    shutil.copytree(source, out, ignore=shutil.ignore_patterns("model.safetensors", "recipe.toml", "samples"))
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    (out / "config.json").write_text(json.dumps(config | {"num_hidden_layers": layers}), encoding="utf-8")
    weights = load_file(source / "model.safetensors")
    kept = {name: one for name, one in weights.items() if not (at := LAYER.search(name)) or int(at[1]) < layers}
    save_file(kept, out / "model.safetensors", {"format": "pt"})


def scores(body: Any) -> dict[str, float]:
    """Each label's probability in an answer."""
    return body["scores"] if "scores" in body else {dish["label"]: dish["score"] for dish in body["dishes"]}
