"""What ONNX cannot hold falls back to PyTorch: the same answers, the same trust, and a note."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from handlers.batching import batches, run_in_batches
from handlers.engine import open_network
from handlers.settings import TextSettings
from handlers.text import TextEncoder
from marsmith.builder import Built, build
from marsmith.diff import diff
from marsmith.errors import CheckpointError, ExportError
from marsmith.ground.files import file_sha256
from marsmith.inspection import inspect
from marsmith.lint import lint_archive
from marsmith.mar.members import PROVENANCE, SBOM
from marsmith.mar.reader import open_archive, read_json
from marsmith.mar.verify import verify
from marsmith.network.choose import TOLERANCE, check_parity
from marsmith.network.image_reference import ImageReference
from marsmith.network.program import PROGRAM, player
from marsmith.network.text_reference import TextReference
from marsmith.recipe.checkpoint import resolve, text_layout
from marsmith.recipe.recipe import Recipe
from marsmith.torchserve.worker import Worker, WorkerRequest
from tests.tiers import builds
from tests.tiny import MAX_TOKENS, SENTIMENTS, food_checkpoint, sentiment_checkpoint, write_recipe

# One of them spells out what ends a text of BART or T5.
TEXTS = ("ok", "what a great day at the beach, thank you!", "no, </s> just no.", "i am tired of it " * 12)
BUILD_TIMEOUT_S = 300
# Logits of different inputs differ by this at least, so that a mixed-up batch is no match by chance.
APART = 1000 * TOLERANCE


@dataclass(frozen=True)
class Fallback:
    """An archive of XLNet, whose relative attention torch.onnx cannot translate; `steps` is what the build said."""

    checkpoint: Path
    recipe: Path
    built: Built
    steps: list[str]


@pytest.fixture(scope="module")
@builds
def fallback(tmp_path_factory: pytest.TempPathFactory) -> Fallback:
    checkpoint = sentiment_checkpoint(tmp_path_factory.mktemp("xlnet"), "xlnet")
    recipe = write_recipe(checkpoint, samples=[{"text": text} for text in TEXTS])
    steps: list[str] = []
    return Fallback(checkpoint, recipe, build(recipe, tmp_path_factory.mktemp("out"), steps.append), steps)


def text_reference(directory: Path) -> TextReference:
    return TextReference(resolve(Recipe.load(write_recipe(directory))), "none")


def logits_of_transformers(directory: Path) -> np.ndarray:
    """float32[texts, labels] of TEXTS, each alone."""
    tokenizer = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
    model = AutoModelForSequenceClassification.from_pretrained(directory, trust_remote_code=False).eval()
    with torch.inference_mode():
        logits = [model(tokenizer(text, truncation=True, return_tensors="pt")["input_ids"]).logits for text in TEXTS]
    return torch.cat(logits).numpy()


def test_a_family_without_a_length_reads_as_much_as_its_tokenizer(tmp_path: Path) -> None:
    """XLNet and T5 know distances alone."""
    directory = sentiment_checkpoint(tmp_path, "xlnet")
    assert text_reference(directory).settings.max_tokens == MAX_TOKENS
    file = directory / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    del settings["model_max_length"]
    file.write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"xlnet model .* nor its .* says how many tokens it reads: write it"):
        text_reference(directory)


def test_texts_of_a_single_layout_run_alone() -> None:
    settings = TextSettings("none", max_tokens=8, first_position=0, layout="single", pad_token=9)
    parts = list(batches([[1], [2, 3, 4]], 512, settings))
    assert [part for part, _ in parts] == [[0], [1]]
    assert [batch.feeds()["input_ids"].tolist() for _, batch in parts] == [[[1]], [[2, 3, 4]]]
    assert [batch.feeds()["attention_mask"].tolist() for _, batch in parts] == [[[1]], [[1, 1, 1]]]


def test_encoder_decoders_read_one_text_at_a_time() -> None:
    """BART and T5 gather the ends of all texts, and a text that spells one out would shift its neighbours'."""
    assert text_layout({"model_type": "bart", "is_encoder_decoder": True}) == "single"


# FNet mixes every token with its padding, T5 and XLNet cannot be exported.
@pytest.mark.build
@pytest.mark.parametrize("family", ["bart", "fnet", "t5", "xlnet"])
def test_a_program_answers_texts_as_its_family_does(tmp_path: Path, family: str) -> None:
    reference = text_reference(sentiment_checkpoint(tmp_path, family))
    reference.record(tmp_path)
    assert check_parity(player(tmp_path / PROGRAM), reference.cases()) < TOLERANCE
    (tmp_path / "tokenizer.json").write_bytes(reference.preprocessing()["tokenizer.json"])
    settings = TextSettings(**reference.settings.model_dump())
    encoder = TextEncoder(tmp_path / "tokenizer.json", settings.normalise, settings.max_tokens)
    ids = [encoder.encode(text).windows[0] for text in TEXTS]
    network = open_network(tmp_path, threads=1)
    answers = np.stack(run_in_batches(network.run, ids, 512, settings))
    expected = logits_of_transformers(tmp_path)
    assert np.ptp(expected, axis=0).min() > APART
    assert abs(answers - expected).max() < TOLERANCE


def test_a_program_answers_images_in_batches_of_any_size(tmp_path: Path) -> None:
    food_checkpoint(tmp_path, model_type="swin")
    reference = ImageReference(resolve(Recipe.load(write_recipe(tmp_path, task="food"))))
    reference.record(tmp_path)
    network = open_network(tmp_path, threads=1)
    for feeds, expected in reference.cases():
        assert abs(network.run(feeds) - expected).max() < TOLERANCE
        assert np.ptp(expected) > APART


def test_the_archive_answers_a_batch_in_the_real_worker(fallback: Fallback) -> None:
    assert fallback.built.golden == len(TEXTS)
    with Worker(fallback.built.path) as worker:
        answers = worker.predict([WorkerRequest.raw(text.encode(), "text/plain") for text in TEXTS])
    scores = np.array([[json.loads(answer.body)["scores"][label] for label in SENTIMENTS] for answer in answers])
    expected = torch.from_numpy(logits_of_transformers(fallback.checkpoint)).double().softmax(-1).numpy()
    assert abs(scores - expected).max() < TOLERANCE


def test_the_build_says_which_engine_and_why(fallback: Fallback) -> None:
    assert fallback.built.engine == "PyTorch"
    assert fallback.built.parity is not None
    assert fallback.built.parity < TOLERANCE
    assert fallback.built.note.startswith("The network cannot be exported to ONNX: Cannot find a compatible")
    assert fallback.built.note.endswith("It runs in PyTorch instead.")
    assert fallback.built.note in fallback.steps


def test_the_command_notes_it_and_builds_the_same_bytes(fallback: Fallback, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "marsmith", "build", str(fallback.recipe), "-o", str(tmp_path)]
    # The fifth digit of a golden score may hang on how a sum is split.
    environ = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    result = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=True)
    assert result.stderr.strip() == f"note: {fallback.built.note}"
    assert "logits in PyTorch within" in result.stdout
    assert file_sha256(tmp_path / "tiny.mar") == file_sha256(fallback.built.path)
    assert diff(tmp_path / "tiny.mar", fallback.built.path) == []


def test_the_papers_name_the_program(fallback: Fallback) -> None:
    path = fallback.built.path
    network = ["model/model.weights", "model/program.json"]
    assert [one["name"] for one in read_json(path, PROVENANCE)["subject"]] == network
    parts = {one["name"] for one in read_json(path, SBOM)["metadata"]["component"]["components"]}
    assert parts >= set(network)
    assert "model/model.onnx" not in parts
    assert not any(line.startswith("torch") for line in inspect(path).requirements)
    assert inspect(path).engine == "PyTorch"


def test_lint_and_verify_find_nothing_in_it(fallback: Fallback) -> None:
    verify(fallback.built.path).require_ok()
    assert lint_archive(fallback.built.path) == []


def test_nothing_of_this_machine_is_in_a_program(fallback: Fallback) -> None:
    with open_archive(fallback.built.path) as zip_file:
        text = zip_file.read("model/program.json").decode()
    assert "/" not in text
    assert "transformers" not in text


@pytest.mark.build
def test_a_family_that_neither_engine_answers_alike_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """Longformer fills texts up to whole windows, and decides how far by Python's own arithmetic."""
    with pytest.raises(ExportError) as caught:
        build(write_recipe(sentiment_checkpoint(tmp_path, "longformer")), tmp_path / "out")
    assert "neither by ONNX Runtime (The network cannot be exported to ONNX: " in str(caught.value)
    assert "nor by PyTorch (Its logits differ from the checkpoint's by" in str(caught.value)
    assert not (tmp_path / "out").exists()
