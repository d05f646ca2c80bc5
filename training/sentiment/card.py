"""The model card of a training: what was measured, said frankly, without a word of anybody's tweets."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from training.report.page import shown

OPTIONS = {"torch_compile": "torch-compile", "group_by_length": "group-by-length", "bf16": "bf16"}


def score_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Rows of name, macro recall, macro F1, accuracy and recalls: the baselines on test, then the model's splits."""
    named = [(f"{name}, test", scores) for name, scores in result["baselines"].items()]
    named += [(f"this model, {split}", result[split]) for split in ("validation", "test")]
    return [
        [name, *(f"{scores[key]:.4f}" for key in ("macro_recall", "macro_f1", "accuracy"))]
        + [f"{recall:.4f}" for recall in scores["recall"].values()]
        for name, scores in named
    ]


def score_columns(result: Mapping[str, Any]) -> list[str]:
    """The columns of `score_rows`."""
    return ["", "macro recall", "macro F1", "accuracy", *(f"recall {label}" for label in result["labels"])]


def command(result: Mapping[str, Any], out: str = "OUT") -> str:
    """Write the command that makes the model again."""
    sources, settings = result["sources"], result["settings"]
    words = ["python", "-m", "training.sentiment", "train", sources["base"], out]
    for name in ("train", "validation", "test", "published"):
        if sources[name]:
            words += [f"--{name}", sources[name]]
    if sources["mend"]:
        words.append("--mend")
    for name, value in settings.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", str(value)]
    return shlex.join(words)


def card(result: Mapping[str, Any]) -> str:
    """Write MODEL_CARD.md."""
    training, model, sources = result["training"], result["model"], result["sources"]
    table = [score_columns(result), ["---", *["---:"] * (len(score_columns(result)) - 1)], *score_rows(result)]
    counts = ", ".join(f"{count:,} {label}" for label, count in training["tweets"].items())
    machine = result["hardware"]
    return f"""---
library_name: transformers
pipeline_tag: text-classification
tags:
  - sentiment
metrics:
  - recall
  - f1
  - accuracy
---

# Sentiment classifier

Says whether a tweet is {", ".join(result["labels"][:-1])} or {result["labels"][-1]}: {model["architecture"]},
{model["parameters"]:,} parameters, {model["bytes"] / 1e6:.1f} MB in {result["settings"]["store"]}, fine-tuned from
`{sources["base"]}`, whose licence applies.

Text must be normalised as in training: words (between single spaces) that start with `@` become `@user`, words that
start with `http` become `http`. Set `normalise = "tweet"` in the recipe of the archive, and the handler does it.

## Data

- Training: `{sources["train"]}`, {sum(training["tweets"].values()):,} tweets ({counts}).
- Validation, which chose the step to keep: `{sources["validation"]}`, {result["validation"]["tweets"]:,} tweets.
- Test, scored once at the end: `{sources["test"]}`, {result["test"]["tweets"]:,} tweets.
{_mended(sources)}
The tweets belong to their authors and are not part of the model's files.

## Results

Scored in fp32 from the files beside this card, as the archive's handler reads them.

{chr(10).join("| " + " | ".join(row) + " |" for row in table)}

The validation figures flatter, since that split chose the step. Expected calibration error on the test split:
{result["test"]["calibration"]["ece"]:.3f} (0 would mean that a probability of 0.8 is right in 80 % of the cases).

## Training

{_steps(training)} in {training["seconds"] / 60:.1f} minutes on {machine["cores"]} cores of {machine["cpu"]}
{_gpus(machine)}; step {training["kept_step"]:,} was kept. PyTorch {result["versions"]["torch"]}, Transformers
{result["versions"]["transformers"]}. Other versions or processors will round differently. `report.html` has the plots.

```sh
{command(result)}
```

| setting | value |
|---|---|
{chr(10).join(f"| {name} | {shown(value)} |" for name, value in result["settings"].items())}

## Limits

- One run with one seed: another seed gives other figures, often by half a point.
- Nothing was measured on texts that are unlike the data above: other languages, other years, longer prose, irony.
- It inherits the bias of the base, of the tweets and of those who labelled them; none was measured. Names, dialects and
  groups may shift the answer. Not for decisions about people.
"""


def _mended(sources: Mapping[str, Any]) -> str:
    if not sources["mend"]:
        return ""
    return "- Escapes and CSV quoting that SemEval's files carry were undone in training and validation, not in test.\n"


def _gpus(machine: Mapping[str, Any]) -> str:
    return f"with {', '.join(machine['gpus'])}" if machine["gpus"] else "without a GPU"


def _steps(training: Mapping[str, Any]) -> str:
    steps, before = training["steps"], training["resumed_at_step"]
    return f"{steps - before:,} of {steps:,} steps, the others before it was resumed," if before else f"{steps:,} steps"
