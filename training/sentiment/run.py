"""`train` from end to end: read, fine-tune, store, score what was stored, and write the report and the card."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from training.errors import TrainingError
from training.metrics import Int64Array
from training.report.machine import hardware, versions
from training.sentiment import LABELS, output
from training.sentiment.base import load
from training.sentiment.baselines import baselines, published
from training.sentiment.card import card
from training.sentiment.data import Tweets, read, require_classes
from training.sentiment.fit import Fitted, fit
from training.sentiment.report import report
from training.sentiment.scoring import judged, logits_of, scored
from training.sentiment.settings import Settings

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sources:
    """Names of the base and of the tweets, as the user gave them; `mend` is for training and validation tweets."""

    base: str
    train: str
    validation: str
    test: str
    published: str = ""
    mend: bool = False


@dataclass(frozen=True, slots=True)
class Splits:
    """The tweets of a training."""

    train: Tweets
    validation: Tweets
    test: Tweets
    published: Int64Array | None


def read_all(sources: Sources) -> Splits:
    """Read all before anything is trained, so that a mistake shows at once. Raises TrainingError."""
    train = read(sources.train, "train", LABELS, mend=sources.mend)
    require_classes(train, sources.train, LABELS)
    validation = read(sources.validation, "validation", LABELS, mend=sources.mend)
    test = read(sources.test, "test", LABELS)
    other = published(Path(sources.published), len(test)) if sources.published else None
    return Splits(train, validation, test, other)


def run(
    sources: Sources, settings: Settings, out: Path, console: Console, *, resume: bool, force: bool, keep: bool
) -> Result:
    """Fine-tune and fill `out`; return what the report shows, as plain values.

    With `keep` the checkpoints stay in `out`. Raises TrainingError.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise TrainingError("Sentiment training runs in one process: start it without torchrun.")
    splits = read_all(sources)
    base = load(sources.base, LABELS, attention_dropout=settings.attention_dropout)
    asked = {**dataclasses.asdict(sources), **settings.table()}
    folder = output.claim(out, asked, resume=resume, force=force)
    began = time.monotonic()
    fitted = fit(base, splits.train, splits.validation, settings, folder, console, resume=resume)
    seconds = time.monotonic() - began
    with output.published(out) as fresh:
        output.store(base.model, base.tokenizer, fresh, settings.store)
        result = {
            "labels": list(LABELS),
            "sources": dataclasses.asdict(sources),
            "settings": settings.table(),
            "training": _training(fitted, splits, seconds),
            "model": _model(base.model, fresh),
            **_scores(splits, fresh, console),
            "hardware": hardware(),
            "versions": versions(),
        }
        (fresh / "report.html").write_text(report(result), "utf-8")
        (fresh / "MODEL_CARD.md").write_text(card(result), "utf-8")
    if not keep:
        shutil.rmtree(folder)
    return result


def _training(fitted: Fitted, splits: Splits, seconds: float) -> Result:
    counts = splits.train.counts(len(LABELS)).tolist()
    return {
        "tweets": dict(zip(LABELS, counts, strict=True)),
        "steps": fitted.steps,
        "kept_step": fitted.best_step,
        "resumed_at_step": fitted.resumed_at,
        "seconds": round(seconds, 1),
        "history": fitted.history,
    }


def _model(model: Any, folder: Path) -> Result:
    return {
        "architecture": type(model).__name__,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "bytes": (folder / "model.safetensors").stat().st_size,
        "vocabulary": model.config.vocab_size,
    }


def _scores(splits: Splits, folder: Path, console: Console) -> Result:
    """The validation and the test split, each scored once, and the baselines on the test split."""
    test = splits.test
    return {
        "validation": judged(splits.validation.labels, logits_of(folder, splits.validation, console, "validation")),
        "test": judged(test.labels, logits_of(folder, test, console, "test")),
        "baselines": {
            name: scored(test.labels, guesses) for name, guesses in baselines(test, splits.published).items()
        },
    }


def write_json(result: Result, file: Path) -> None:
    """Write it whole or not at all."""
    unfinished = file.with_name(f".{file.name}.new")
    unfinished.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    unfinished.replace(file)
