"""A whole training of a tiny network: what it leaves, what it keeps, and what it says."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from safetensors import safe_open
from transformers import AutoTokenizer

from tests.training.sentiment.conftest import FILLERS, LABELS, QUICK
from training.sentiment.data import read
from training.sentiment.run import Sources, run, write_json
from training.sentiment.scoring import judged, logits_of


@pytest.fixture(scope="module")
def trained(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("trained")
    answers = folder / "published.txt"
    answers.write_text("1\n" * 60, "utf-8")
    settings = dataclasses.replace(QUICK, max_steps=40, every=10, store="fp16")
    asked = dataclasses.replace(sources, published=str(answers))
    out = folder / "out"
    return out, run(asked, settings, out, Console(quiet=True), resume=False, force=False, keep=False)


@pytest.mark.slow
def test_it_leaves_a_checkpoint_a_report_and_a_card(trained: tuple[Path, dict[str, Any]]) -> None:
    assert {file.name for file in trained[0].iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "report.html",
        "MODEL_CARD.md",
    }


def test_weights_are_stored_as_asked_and_readable_by_all(trained: tuple[Path, dict[str, Any]]) -> None:
    file = trained[0] / "model.safetensors"
    with safe_open(file, "pt") as tensors:
        assert {tensors.get_tensor(name).dtype.itemsize for name in tensors.keys()} == {2}  # noqa: SIM118
    assert file.stat().st_mode & 0o044 == 0o044
    assert json.loads((trained[0] / "config.json").read_text("utf-8"))["id2label"] == dict(
        zip("012", LABELS, strict=True)
    )


def test_it_learns_what_the_tweets_teach(trained: tuple[Path, dict[str, Any]]) -> None:
    result = trained[1]
    assert result["test"]["macro_recall"] > 0.9
    assert set(result["baselines"]) == {
        "majority class (always negative)",
        "VADER, neutral within ±0.05",
        "published",
    }
    assert result["baselines"]["published"]["recall"] == {"negative": 0.0, "neutral": 1.0, "positive": 0.0}


def test_figures_are_those_of_the_stored_files(
    trained: tuple[Path, dict[str, Any]], sources: Sources, console: Console
) -> None:
    out, result = trained
    for split in ("validation", "test"):
        tweets = read(getattr(sources, split), split, LABELS)
        assert judged(tweets.labels, logits_of(out, tweets, console, split)) == result[split]


def test_every_evaluation_has_all_scores_and_the_best_is_kept(trained: tuple[Path, dict[str, Any]]) -> None:
    training = trained[1]["training"]
    found = [entry for entry in training["history"] if "eval_macro_recall" in entry]
    assert [entry["step"] for entry in found] == [10, 20, 30, 40]
    for name in ("macro_f1", "accuracy", "loss", *(f"recall_{label}" for label in LABELS)):
        assert all(entry[f"eval_{name}"] >= 0 for entry in found)
    best = max(found, key=lambda entry: entry["eval_macro_recall"])  # the first of equals
    assert training["kept_step"] == best["step"]


def test_the_report_is_one_file_with_all_plots(trained: tuple[Path, dict[str, Any]]) -> None:
    report = (trained[0] / "report.html").read_text("utf-8")
    assert report.count('src="data:image/png;base64,') == 5
    assert not re.search(r'(src|href)="(?!data:)', report)
    for words in ("macro recall", "ECE", "adamw_torch_fused", "torch"):
        assert words in report


def test_neither_card_nor_report_shows_a_tweet(trained: tuple[Path, dict[str, Any]]) -> None:
    for name in ("report.html", "MODEL_CARD.md"):
        text = (trained[0] / name).read_text("utf-8")
        assert not any(filler.split("@")[0].strip() in text for filler in FILLERS[:3])


def test_the_card_says_what_was_measured_and_how_to_make_it_again(
    trained: tuple[Path, dict[str, Any]], sources: Sources
) -> None:
    card = (trained[0] / "MODEL_CARD.md").read_text("utf-8")
    result = trained[1]
    assert f"| this model, test | {result['test']['macro_recall']:.4f} |" in card
    assert f"python -m training.sentiment train {sources.base} OUT --train {sources.train}" in card
    assert "--max-steps 40" in card
    assert "\n\n\n" not in card


def test_the_tokenizer_reads_back_without_truncation(trained: tuple[Path, dict[str, Any]]) -> None:
    state = json.loads((trained[0] / "tokenizer.json").read_text("utf-8"))
    assert (state["truncation"], state["padding"]) == (None, None)
    assert AutoTokenizer.from_pretrained(trained[0], trust_remote_code=False).is_fast


def test_results_are_json(trained: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    write_json(trained[1], tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text("utf-8")) == json.loads(json.dumps(trained[1]))
    assert [file.name for file in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.slow
def test_it_stops_where_patience_ends(sources: Sources, tmp_path: Path, console: Console) -> None:
    settings = dataclasses.replace(QUICK, max_steps=40, every=2, lr=0.0, patience=2)
    training = run(sources, settings, tmp_path / "out", console, resume=False, force=False, keep=False)["training"]
    assert (training["kept_step"], training["steps"]) == (2, 6)


@pytest.mark.slow
def test_it_evaluates_once_an_epoch_unless_told_otherwise(sources: Sources, tmp_path: Path, console: Console) -> None:
    settings = dataclasses.replace(QUICK, max_steps=0, epochs=2, every=0, batch=30, store="fp32")
    training = run(sources, settings, tmp_path / "out", console, resume=False, force=False, keep=False)["training"]
    found = [entry for entry in training["history"] if "eval_macro_recall" in entry]
    assert [entry["epoch"] for entry in found] == [1, 2]


@pytest.mark.slow
def test_bf16_is_a_switch(sources: Sources, tmp_path: Path, console: Console) -> None:
    settings = dataclasses.replace(QUICK, max_steps=30, every=10, bf16=True)
    result = run(sources, settings, tmp_path / "out", console, resume=False, force=False, keep=False)
    assert result["settings"]["bf16"]
    assert result["test"]["macro_recall"] > 0.6
