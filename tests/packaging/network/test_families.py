"""Families of checkpoints: each is exported in its layout, and the handlers answer as transformers does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from handlers.batching import batches, run_in_batches
from handlers.engine import Engine
from handlers.settings import TextSettings
from handlers.text import TextEncoder
from marsmith.builder import Built, build
from marsmith.errors import ExportError
from marsmith.network.choose import TOLERANCE, check_parity
from marsmith.network.export import GRAPH, export_text, session
from marsmith.network.text_reference import TextReference
from marsmith.recipe.checkpoint import TEXT_LAYOUTS, resolve, text_layout
from marsmith.recipe.recipe import Recipe
from tests.tiny import TEXT_SETTINGS, sentiment_checkpoint, write_recipe

# Of one token, of several, in scripts that no vocabulary here knows, and longer than the models read.
TEXTS = (
    "ok",
    "what a great day at the beach, thank you!",
    "",
    "i am tired of it " * 12,
    "我 😀 Straße",
    "no, just no.",
)
SAMPLES = [{"text": text} for text in TEXTS if text]
# Small enough that the texts need several batches, some of one text and some of more.
TOKEN_BUDGET = 60
# Logits of different inputs differ by this at least, so that a mixed-up batch is no match by chance.
APART = 1000 * TOLERANCE


def text_reference(directory: Path) -> TextReference:
    return TextReference(resolve(Recipe.load(write_recipe(directory))), "none")


def answers_of_handlers(reference: TextReference, out: Path) -> np.ndarray:
    """Logits float32[texts, labels] of TEXTS: tokenised, batched and run as the handlers do."""
    reference.export(out)
    (out / "tokenizer.json").write_bytes(reference.preprocessing()["tokenizer.json"])
    settings = TextSettings(**reference.settings.model_dump())
    encoder = TextEncoder(out / "tokenizer.json", settings.normalise, settings.max_tokens)
    engine = Engine(out / GRAPH, threads=1)
    ids = [encoder.encode(text).windows[0] for text in TEXTS]
    assert 1 < len(list(batches(ids, TOKEN_BUDGET, settings))) < len(TEXTS)
    return np.stack(run_in_batches(engine.run, ids, TOKEN_BUDGET, settings))


def answers_of_transformers(directory: Path) -> np.ndarray:
    """Logits float32[texts, labels] of TEXTS, each alone."""
    tokenizer = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
    model = AutoModelForSequenceClassification.from_pretrained(directory, trust_remote_code=False).eval()
    with torch.inference_mode():
        logits = [model(**tokenizer(text, truncation=True, return_tensors="pt")).logits.numpy() for text in TEXTS]
    return np.concatenate(logits)


@pytest.mark.build
@pytest.mark.parametrize("family", TEXT_SETTINGS)
def test_handlers_answer_texts_as_each_family_does(tmp_path: Path, family: str) -> None:
    reference = text_reference(sentiment_checkpoint(tmp_path, family))
    assert reference.settings.layout == TEXT_LAYOUTS[family]
    expected = answers_of_transformers(tmp_path)
    assert np.ptp(expected, axis=0).min() > APART
    assert abs(answers_of_handlers(reference, tmp_path) - expected).max() < TOLERANCE
    assert check_parity(session(tmp_path / GRAPH), reference.cases()) < TOLERANCE


def test_every_proven_family_is_tested() -> None:
    assert TEXT_SETTINGS.keys() == TEXT_LAYOUTS.keys()


@pytest.mark.build
@pytest.mark.parametrize(
    ("family", "labels", "settings"),
    [
        # MiniLM is BERT or XLM-R with narrow layers.
        ("bert", 28, {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 12, "intermediate_size": 96}),
        # DeBERTa v2 had positions beside distances, without buckets and with projections of their own.
        (
            "deberta-v2",
            2,
            {"position_buckets": -1, "share_att_key": False, "position_biased_input": True, "type_vocab_size": 2},
        ),
    ],
)
def test_variants_of_a_family_with_few_labels_or_many(
    tmp_path: Path, family: str, labels: int, settings: dict[str, Any]
) -> None:
    names = [f"feeling {number}" for number in range(labels)]
    reference = text_reference(sentiment_checkpoint(tmp_path, family, names, **settings))
    assert reference.settings.layout == "packed"
    answers = answers_of_handlers(reference, tmp_path)
    assert answers.shape == (len(TEXTS), labels)
    assert abs(answers - answers_of_transformers(tmp_path)).max() < TOLERANCE


def test_a_family_that_cannot_be_packed_is_found_out(tmp_path: Path) -> None:
    """MPNet counts distances through the whole sequence, by an attention of its own."""
    reference = text_reference(sentiment_checkpoint(tmp_path, "mpnet"))
    with pytest.raises(ExportError, match="cannot be exported"):
        export_text(reference.model, reference.settings.model_copy(update={"layout": "packed"}), tmp_path)


def agrees(built: Built) -> bool:
    return built.parity is not None and built.parity < TOLERANCE


@pytest.mark.build
def test_an_archive_with_a_packed_graph_answers_in_the_real_worker(tmp_path: Path) -> None:
    """The build asks the archive all samples at once, in TorchServe's own worker, and refuses it when one differs."""
    recipe = write_recipe(sentiment_checkpoint(tmp_path, "xlm-roberta"), samples=SAMPLES)
    built = build(recipe, tmp_path / "out")
    assert (built.golden, agrees(built)) == (len(SAMPLES), True)


@pytest.mark.build
def test_an_unproven_family_is_padded_and_answers_in_the_real_worker(tmp_path: Path) -> None:
    assert "megatron-bert" not in TEXT_LAYOUTS
    recipe = write_recipe(sentiment_checkpoint(tmp_path, "megatron-bert"), samples=SAMPLES)
    steps: list[str] = []
    built = build(recipe, tmp_path / "out", steps.append)
    assert (built.golden, agrees(built)) == (len(SAMPLES), True)
    assert any("no test covers megatron-bert models: this one is kept only if the export" in step for step in steps)


def test_padding_counts_against_the_budget() -> None:
    settings = TextSettings("none", max_tokens=8, first_position=0, layout="padded", pad_token=9)
    (first, pair), (second, one) = batches([[1], [2, 3, 4], [5]], 4, settings)
    assert (first, second) == ([0, 2], [1])
    assert pair.feeds()["input_ids"].tolist() == [[1], [5]]
    assert one.feeds()["input_ids"].tolist() == [[2, 3, 4]]
    (_, both), *_ = batches([[1], [2, 3, 4]], 6, settings)
    assert both.feeds()["input_ids"].tolist() == [[1, 9, 9], [2, 3, 4]]
    assert both.feeds()["attention_mask"].tolist() == [[1, 0, 0], [1, 1, 1]]
    assert {array.dtype for array in pair.feeds().values()} == {np.dtype(np.int64)}


def test_layouts_need_no_known_family() -> None:
    assert text_layout({"model_type": "bert"}) == "packed"
    assert text_layout({"model_type": "longformer"}) == text_layout({}) == "padded"


def test_a_convolution_across_tokens_is_never_packed() -> None:
    assert text_layout({"model_type": "deberta-v2", "conv_kernel_size": 0}) == "packed"
    assert text_layout({"model_type": "deberta-v2", "conv_kernel_size": 3}) == "padded"
