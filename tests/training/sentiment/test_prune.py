"""A pruned base is smaller, says the same of the pieces it kept, and can be trained."""

import dataclasses
from pathlib import Path

import pytest
import torch
from rich.console import Console

from tests.tiny import sentiment_checkpoint
from tests.training.sentiment.conftest import LABELS, QUICK
from training.errors import TrainingError
from training.sentiment.base import load
from training.sentiment.prune import prune
from training.sentiment.run import Sources, run

TEXTS = ["what a great day", "the worst coffee i have ever had", "great day at the beach"]


@pytest.mark.parametrize("pieces", [120, 10_000])
def test_a_pruned_base_has_the_rows_of_the_pieces_it_kept(base: Path, tmp_path: Path, pieces: int) -> None:
    count = prune(str(base), TEXTS, tmp_path / "small", pieces, seed=1, force=False)
    old, new = load(str(base), LABELS), load(str(tmp_path / "small"), LABELS)
    assert count == len(new.tokenizer) == new.model.config.vocab_size < len(old.tokenizer)
    before, after = old.model.get_input_embeddings().weight, new.model.get_input_embeddings().weight
    for piece, index in new.tokenizer.get_vocab().items():
        assert torch.equal(after[index], before[old.tokenizer.convert_tokens_to_ids(piece)])
    assert new.model.config.attention_probs_dropout_prob == 0.0
    assert new.max_tokens == old.max_tokens


def test_kept_words_are_read_as_before(base: Path, tmp_path: Path) -> None:
    prune(str(base), TEXTS, tmp_path / "small", 10_000, seed=1, force=False)
    old, new = load(str(base), LABELS).tokenizer, load(str(tmp_path / "small"), LABELS).tokenizer
    for text in TEXTS:
        assert new.tokenize(text) == old.tokenize(text)


@pytest.mark.slow
def test_a_pruned_base_can_be_trained(sources: Sources, tmp_path: Path, console: Console) -> None:
    prune(sources.base, TEXTS, tmp_path / "small", 10_000, seed=1, force=False)
    asked = dataclasses.replace(sources, base=str(tmp_path / "small"))
    result = run(asked, QUICK, tmp_path / "out", console, resume=False, force=False, keep=False)
    assert result["training"]["steps"] == QUICK.max_steps


def test_what_cannot_be_pruned_is_refused(base: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"are too few: .* give --pieces more"):
        prune(str(base), TEXTS, tmp_path / "small", 5, seed=1, force=False)
    with pytest.raises(TrainingError, match="has no WordPiece vocabulary"):
        prune(str(sentiment_checkpoint(tmp_path / "r", "roberta")), TEXTS, tmp_path / "small", 99, seed=1, force=False)
    with pytest.raises(TrainingError, match="is there already"):
        prune(str(base), TEXTS, base, 10_000, seed=1, force=False)
