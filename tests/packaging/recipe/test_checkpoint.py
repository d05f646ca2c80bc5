"""A checkpoint that is not whole, or not for the task, is found before anything heavy is loaded."""

import json
from pathlib import Path
from typing import Any

import pytest

from marsmith.errors import CheckpointError
from marsmith.recipe.checkpoint import resolve
from marsmith.recipe.recipe import Recipe
from marsmith.recipe.weights import check_safetensors
from tests.tiny import sentiment_checkpoint, write_recipe


def header(content: bytes) -> bytes:
    """A safetensors file of a header alone."""
    return len(content).to_bytes(8, "little") + content + bytes(4 * (content != b"{}"))


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    sentiment_checkpoint(tmp_path)
    return Recipe.load(write_recipe(tmp_path, name="m", task="sentiment", checkpoint="."))


def edit_config(recipe: Recipe, **changes: Any) -> None:
    file = recipe.directory / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_whole_checkpoint_gives_its_labels_in_the_order_of_the_logits(recipe: Recipe) -> None:
    edit_config(recipe, id2label={"2": "c", "0": "a", "1": "b"})
    checkpoint = resolve(recipe)
    assert (checkpoint.source, checkpoint.labels) == ("local", ["a", "b", "c"])


def test_half_a_download_is_told_from_a_whole_one(recipe: Recipe) -> None:
    weights = recipe.directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"not a whole safetensors .* was cut off\. Download it again\."):
        resolve(recipe)


HEADERS = {
    "ones": b"\xff" * 64,
    "zeros": bytes(64),
    "null": header(b"null"),
    "a list": header(b"[]"),
    "no JSON": header(b"{"),
    "UTF-16": header("{}".encode("utf-16")),
    "nested deep": header(b'{"a":' * 10_000 + b"1" + b"}" * 10_000),
    "an offset that is a string": header(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, "x"]}}'),
    "a negative shape": header(b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}'),
    "a shape past 64 bits": header(
        b'{"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 4]}}'
    ),
    "an unknown type": header(b'{"a": {"dtype": "Q1", "shape": [1], "data_offsets": [0, 4]}}'),
    "NaN": header(b'{"a": {"dtype": "F32", "shape": [NaN], "data_offsets": [0, 4]}}'),
    "a huge length": (1 << 40).to_bytes(8, "little") + b"{}",
    "only its beginning": header(b"{}")[:5],
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS)
def test_weights_with_an_invalid_header_are_one_sentence(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is not a whole safetensors file \(.*\)") as raised:
        check_safetensors(file)
    assert "\n" not in str(raised.value)


def test_weights_without_a_tensor_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(header(b"{}"))
    with pytest.raises(CheckpointError, match="holds no weights"):
        check_safetensors(tmp_path / "model.safetensors")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(recipe: Recipe, name: str) -> None:
    (recipe.directory / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        resolve(recipe)


def test_a_checkpoint_without_preprocessing_is_refused(recipe: Recipe) -> None:
    for file in recipe.directory.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        resolve(recipe)


def test_an_architecture_for_another_task_is_refused(recipe: Recipe) -> None:
    edit_config(recipe, architectures=["BertForMaskedLM"])
    with pytest.raises(CheckpointError, match=r"is a BertForMaskedLM, the task sentiment needs"):
        resolve(recipe)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"id2label": {"0": "stars"}}, r"answers with a number \(regression\)"),
        ({"problem_type": "regression"}, r"answers with a number \(regression\)"),
        ({"problem_type": "multi_label_classification"}, "gives every label a probability of its own"),
    ],
)
def test_what_does_not_choose_one_label_is_refused(recipe: Recipe, changes: dict[str, Any], says: str) -> None:
    edit_config(recipe, **changes)
    with pytest.raises(CheckpointError, match=f"{says}.* fine-tune this one for single_label_classification"):
        resolve(recipe)


def test_one_label_of_several_is_what_every_task_answers(recipe: Recipe) -> None:
    edit_config(recipe, problem_type="single_label_classification")
    assert resolve(recipe).labels == ["negative", "neutral", "positive"]


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({}, "no complete id2label"),
        ({"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, "placeholders"),
        ({"0": "a", "2": "b", "3": "c"}, "no complete id2label"),
        ({"0": "a", "1": "a", "2": "b"}, "two labels of one name"),
    ],
)
def test_labels_that_say_nothing_are_refused_with_the_remedy(recipe: Recipe, labels: dict[str, str], says: str) -> None:
    edit_config(recipe, id2label=labels)
    with pytest.raises(CheckpointError, match=says) as raised:
        resolve(recipe)
    assert "labels = [" in str(raised.value)


def test_labels_in_the_recipe_come_first(tmp_path: Path) -> None:
    sentiment_checkpoint(tmp_path)
    path = write_recipe(tmp_path, name="m", task="sentiment", checkpoint=".", labels=["x", "y", "z"])
    assert resolve(Recipe.load(path)).labels == ["x", "y", "z"]


def test_pickled_weights_are_refused_unless_asked_for(tmp_path: Path) -> None:
    sentiment_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="allow_pickle = true"):
        resolve(Recipe.load(write_recipe(tmp_path, name="m", task="sentiment", checkpoint=".")))
    resolve(Recipe.load(write_recipe(tmp_path, name="m", task="sentiment", checkpoint=".", allow_pickle=True)))


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, name="m", task="sentiment", checkpoint="./nowhere")
    with pytest.raises(CheckpointError, match="There is no checkpoint directory"):
        resolve(Recipe.load(path))


def test_a_hub_id_is_downloaded_at_its_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = tmp_path / "snapshots/0123abc"
    commit.mkdir(parents=True)
    sentiment_checkpoint(commit)
    asked: list[tuple[str, str | None, list[str]]] = []

    def download(repo_id: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((repo_id, revision, allow_patterns))
        return str(commit)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    path = write_recipe(tmp_path, name="m", task="sentiment", checkpoint="owner/model", revision="v1")
    assert resolve(Recipe.load(path)).source == "owner/model@0123abc"
    ((repo, revision, patterns),) = asked
    assert (repo, revision) == ("owner/model", "v1")
    assert "pytorch_model.bin" not in patterns


def test_a_hub_that_cannot_be_reached_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_kwargs: object) -> str:
        raise ConnectionError("no route\nmore lines")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    path = write_recipe(tmp_path, name="m", task="sentiment", checkpoint="owner/model")
    with pytest.raises(CheckpointError, match=r"cannot be had from the Hugging Face hub: no route\. Check") as raised:
        resolve(Recipe.load(path))
    assert "\n" not in str(raised.value)
