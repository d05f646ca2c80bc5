"""The report of a training as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from training.report import figures
from training.report.calibration import Calibration
from training.report.page import Plot, Table, Words, page
from training.sentiment.card import command, score_columns, score_rows

CURVES = ("macro_recall", "macro_f1", "accuracy")


def report(result: Mapping[str, Any]) -> str:
    """Write the page: scores, curves, confusion, calibration, settings and hardware."""
    training, test, labels = result["training"], result["test"], result["labels"]
    history, kept = training["history"], training["kept_step"]
    losses = {"training": _curve(history, "loss"), "validation": _curve(history, "eval_loss")}
    curves = {name.replace("_", " "): _curve(history, f"eval_{name}") for name in CURVES}
    recalls = {f"recall {label}": _curve(history, f"eval_recall_{label}") for label in labels}
    calibration = Calibration(**test["calibration"])
    run = {name: training[name] for name in ("steps", "kept_step", "resumed_at_step", "seconds")}
    return page(
        "Sentiment fine-tuning",
        [
            Words(
                f"Fine-tuned from {result['sources']['base']}; step {kept:,} of {training['steps']:,} had the best "
                "macro recall on the validation tweets and was kept. Test tweets were scored once, as stored."
            ),
            Table("Scores", score_columns(result), score_rows(result)),
            Plot(figures.lines("Loss", "step", "loss", losses, kept), "Loss of training and validation by step."),
            Plot(figures.lines("Validation", "step", "score", curves, kept), "Validation scores by step."),
            Plot(figures.lines("Validation, by class", "step", "recall", recalls, kept), "Recall of a class by step."),
            Table("Validation", *_evaluations(history, labels)),
            Plot(figures.confusion("Test", test["confusion"], labels), "Confusion matrix of the test tweets."),
            Plot(figures.reliability("Test", calibration), f"Reliability diagram, ECE {calibration.ece:.3f}."),
            Table.of("Settings", result["settings"]),
            Table.of("Run", {**run, **result["model"]}),
            Table.of("Hardware and versions", {**result["hardware"], **result["versions"]}),
            Words("Made again by:"),
            Words(command(result), code=True),
        ],
    )


def _curve(history: Sequence[Mapping[str, float]], key: str) -> list[tuple[float, float]]:
    return [(entry["step"], entry[key]) for entry in history if key in entry]


def _evaluations(history: Sequence[Mapping[str, float]], labels: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    keys = [*CURVES, *(f"recall_{label}" for label in labels)]
    rows = [
        [f"{entry['step']:.0f}", f"{entry['epoch']:.2f}", *(f"{entry[f'eval_{key}']:.4f}" for key in keys)]
        for entry in history
        if "eval_macro_recall" in entry
    ]
    return ["step", "epoch", *(key.replace("_", " ") for key in keys)], rows
