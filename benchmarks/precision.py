"""What int8 costs the starters: their score on labelled data, in fp32 and in int8.

    python -m benchmarks.precision [--texts TEST.tsv CALIBRATION.tsv] [--images TEST.txt CALIBRATION.txt] [--json FILE]

A TSV file has a label's number, a tab and a text in each line. A TXT file has the path of an image, from the file's
directory, and, last after a comma, a label's number. The int8 archives are built with the calibration data as their
[accuracy] inputs; both are asked in TorchServe's real Python worker about the test data. The exit code is 1 where int8
loses more than LARGEST_DROP of the score, or changes more labels than LEAST_AGREEMENT allows.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import marsmith
from benchmarks.machine import hardware, versions
from benchmarks.parity import FOOD, MODELS, SENTIMENT, Scores, archive_scores, text_request
from marsmith.ground.files import atomic, read_lines
from marsmith.torchserve.worker import WorkerRequest

LARGEST_DROP, LEAST_AGREEMENT = 0.003, 0.99
# What the build itself must not refuse, since this is to say how far int8 is.
LIMITS = "min_label_agreement = 0.9\nmax_probability_change = 1.0\n"
METRICS = {SENTIMENT: "macro recall", FOOD: "top-1"}


@dataclass(frozen=True, slots=True)
class Labelled:
    """Inputs and the numbers of their labels."""

    inputs: Sequence[str | bytes]
    labels: list[int]


@dataclass(frozen=True, slots=True)
class Cost:
    """`fp32` and `int8` are the score in `metric`, from 0 to 1; the other two compare the answers with each other."""

    metric: str
    inputs: int
    calibration_inputs: int
    fp32: float
    int8: float
    label_agreement: float
    max_probability_change: float
    fp32_bytes: int
    int8_bytes: int

    @property
    def ok(self) -> bool:
        """Whether int8 is as good as is asked for."""
        return self.fp32 - self.int8 <= LARGEST_DROP and self.label_agreement >= LEAST_AGREEMENT


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, ask, print a table and, if asked, write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("--texts", "--images"):
        parser.add_argument(name, type=Path, nargs=2, metavar=("TEST", "CALIBRATION"))
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args(arguments)
    if not (options.texts or options.images):
        parser.error("give --texts, --images or both: the starters' own data are not here")
    found = {}
    with tempfile.TemporaryDirectory(prefix="marsmith-precision-") as scratch:
        if options.texts:
            test, calibration = map(read_texts, options.texts)
            found[SENTIMENT] = cost(SENTIMENT, test, calibration, Path(scratch))
        if options.images:
            test, calibration = map(read_images, options.images)
            found[FOOD] = cost(FOOD, test, calibration, Path(scratch))
    if options.json:
        report = {name: asdict(one) for name, one in found.items()} | {
            "machine": hardware(),
            "versions": versions(Path(sys.executable)),
        }
        with atomic(options.json) as stream:
            stream.write((json.dumps(report, indent=2) + "\n").encode("utf-8"))
    Console().print(table(found))
    return 0 if all(one.ok for one in found.values()) else 1


def cost(name: str, test: Labelled, calibration: Labelled, scratch: Path) -> Cost:
    """Build the starter twice, and ask both archives."""
    exact = marsmith.build(MODELS / name, scratch / "fp32").path
    reduced = marsmith.build(in_int8(name, calibration, scratch / "recipes"), scratch / "int8").path
    names = labels(name)
    asked = [
        text_request(place, one) if isinstance(one, str) else WorkerRequest.raw(one)
        for place, one in enumerate(test.inputs)
    ]
    answers = [archive_scores(archive, asked) for archive in (exact, reduced)]
    best = [np.array([names.index(next(iter(scores))) for scores in one]) for one in answers]
    fp32, int8 = (score(name, np.array(test.labels), guessed) for guessed in best)
    return Cost(
        metric=METRICS[name],
        inputs=len(test.inputs),
        calibration_inputs=len(calibration.inputs),
        fp32=fp32,
        int8=int8,
        label_agreement=float((best[0] == best[1]).mean()),
        max_probability_change=max(map(change, *answers)),
        fp32_bytes=exact.stat().st_size,
        int8_bytes=reduced.stat().st_size,
    )


def in_int8(name: str, calibration: Labelled, directory: Path) -> Path:
    """The starter's recipe in int8, with the calibration data beside it."""
    target = shutil.copytree(MODELS / name, directory / name)
    shutil.copy(MODELS / "nutrition.csv", directory)
    inputs = target / "calibration"
    if name == SENTIMENT:
        inputs.write_text("".join(f"{text!s}\n" for text in calibration.inputs), encoding="utf-8")
    else:
        inputs.mkdir()
        for place, data in enumerate(calibration.inputs):
            (inputs / f"{place:05}.jpg").write_bytes(data if isinstance(data, bytes) else data.encode())
    recipe = target / "recipe.toml"
    toml = recipe.read_text(encoding="utf-8").replace('precision = "fp32"', 'precision = "int8"')
    recipe.write_text(f'{toml}\n[accuracy]\ninputs = "calibration"\n{LIMITS}', encoding="utf-8")
    return recipe


def labels(name: str) -> list[str]:
    """The starter's labels in the order of their numbers."""
    config = json.loads((MODELS / name / "config.json").read_text(encoding="utf-8"))
    return [config["id2label"][str(number)] for number in range(len(config["id2label"]))]


def score(name: str, expected: np.ndarray, guessed: np.ndarray) -> float:
    """Macro recall of texts, as TweetEval scores sentiment; of images, the share that is right."""
    if name == FOOD:
        return float((expected == guessed).mean())
    return float(np.mean([(guessed[expected == label] == label).mean() for label in np.unique(expected)]))


def change(expected: Scores, got: Scores) -> float:
    """The largest difference of a probability."""
    return max(abs(got[label] - value) for label, value in expected.items())


def read_texts(file: Path) -> Labelled:
    """The lines of a TSV file."""
    rows = [line.split("\t", 1) for line in read_lines(file) if line.strip()]
    return Labelled([text for _, text in rows], [int(label) for label, _ in rows])


def read_images(file: Path) -> Labelled:
    """The images that a list names."""
    rows = [line.split(",") for line in read_lines(file) if line.strip()]
    return Labelled([(file.parent / row[0].strip()).read_bytes() for row in rows], [int(row[-1]) for row in rows])


def table(found: dict[str, Cost]) -> Table:
    """The figures by model."""
    shown = Table("", "score", "fp32", "int8", "labels alike", "largest change", "inputs", "fp32, MB", "int8, MB")
    for name, one in found.items():
        sizes = (f"{size / 1e6:.1f}" for size in (one.fp32_bytes, one.int8_bytes))
        figures = (f"{one.fp32:.2%}", f"{one.int8:.2%}", f"{one.label_agreement:.2%}")
        shown.add_row(name, one.metric, *figures, f"{one.max_probability_change:.3f}", f"{one.inputs:,}", *sizes)
    return shown


if __name__ == "__main__":
    raise SystemExit(main())
