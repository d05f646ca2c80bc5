"""What a training leaves becomes an archive as it is, and the archive answers as the checkpoint does."""

import dataclasses
from pathlib import Path

import pytest
from rich.console import Console

from marsmith.builder import build
from marsmith.evidence import golden, replay
from tests.tiny import sentiment_checkpoint, write_recipe
from tests.training.sentiment.conftest import QUICK
from training.sentiment.run import Sources, run


@pytest.mark.build
def test_the_builder_takes_the_output_as_it_is(sources: Sources, tmp_path: Path, console: Console) -> None:
    sources = dataclasses.replace(sources, base=str(sentiment_checkpoint(tmp_path / "base", "roberta")))
    out = tmp_path / "out"
    run(sources, dataclasses.replace(QUICK, store="fp16"), out, console, resume=False, force=False, keep=False)
    samples = [{"text": "what a great day @anna http://t.co/x"}, {"text": "the worst coffee"}]
    recipe = write_recipe(out, normalise="tweet", samples=samples)
    built = build(recipe, tmp_path)
    recorded = golden.read(built.path)
    assert recorded is not None
    outcomes = replay.in_worker(built.path)
    assert len(outcomes) == len(recorded.requests) >= len(samples)
    assert all(outcome.ok for outcome in outcomes)
