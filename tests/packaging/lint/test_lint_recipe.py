"""A recipe, its checkpoint and its samples, without torch and without the network."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from marsmith.errors import RecipeError
from marsmith.ground.limits import MAX_SAMPLE_BYTES
from marsmith.lint import lint_recipe
from tests.packaging.lint.test_lint_secrets import TOKENS
from tests.packaging.lint.trees import codes, only
from tests.tiny import food_checkpoint, sentiment_checkpoint, write_recipe

ROOT = Path(__file__).parents[3]
SAMPLE = {"text": "a text that is nobody's business", "expect": "positive"}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return sentiment_checkpoint(tmp_path)


def test_a_sound_recipe_has_no_finding(checkpoint: Path) -> None:
    assert lint_recipe(write_recipe(checkpoint, samples=[SAMPLE])) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sentiment", "food", "sentiment-roberta"])
def test_the_recipes_of_this_repository_have_no_finding(name: str) -> None:
    assert lint_recipe(ROOT / "models" / name) == []


def test_no_samples_are_a_warning(checkpoint: Path) -> None:
    assert codes(lint_recipe(write_recipe(checkpoint))) == ["M606"]


def test_a_recipe_that_cannot_be_read_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="There is no recipe"):
        lint_recipe(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [lambda file: None, lambda file: file.mkdir(), lambda file: file.symlink_to("nowhere")]
)
def test_a_sample_that_is_no_file_is_named(tmp_path: Path, make: Callable[[Path], None]) -> None:
    food_checkpoint(tmp_path)
    make(tmp_path / "ramen.png")
    recipe = write_recipe(tmp_path, task="food", samples=[{"image": "ramen.png", "expect": "ramen"}])
    assert only(lint_recipe(recipe), "M605").where == "samples 1: ramen.png"


@pytest.mark.slow
def test_a_sample_of_the_largest_size_is_fine_and_a_larger_one_is_not(tmp_path: Path) -> None:
    food_checkpoint(tmp_path)
    Image.new("RGB", (8, 8)).save(tmp_path / "ramen.png")
    recipe = write_recipe(tmp_path, task="food", samples=[{"image": "ramen.png", "expect": "ramen"}])
    with (tmp_path / "ramen.png").open("r+b") as stream:
        stream.truncate(MAX_SAMPLE_BYTES)
        assert lint_recipe(recipe) == []
        stream.truncate(MAX_SAMPLE_BYTES + 1)
    assert "20,000,000" in only(lint_recipe(recipe), "M605").message


def test_a_nutrition_table_that_cannot_be_used_is_a_finding(tmp_path: Path) -> None:
    food_checkpoint(tmp_path)
    recipe = write_recipe(tmp_path, task="food", nutrition="absent.csv")
    assert codes(lint_recipe(recipe)) == ["M605", "M606"]


def test_a_sample_text_is_never_quoted(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").unlink()
    findings = lint_recipe(write_recipe(checkpoint, samples=[SAMPLE]))
    assert findings
    assert not any("business" in f"{one.where}{one.message}{one.remedy}" for one in findings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "text"), [("config.json", "{"), ("model.safetensors", "cut"), ("tokenizer.json", None)]
)
def test_a_checkpoint_that_is_not_whole_is_found(checkpoint: Path, file: str, text: str | None) -> None:
    (checkpoint / file).unlink()
    if text is not None:
        (checkpoint / file).write_text(text)
    assert file in only(lint_recipe(write_recipe(checkpoint)), "M601").message


def test_a_checkpoint_that_is_not_there_is_found_and_one_on_the_hub_is_not_asked_for(tmp_path: Path) -> None:
    assert codes(lint_recipe(write_recipe(tmp_path, checkpoint="./nowhere"))) == ["M601", "M606"]
    assert codes(lint_recipe(write_recipe(tmp_path, checkpoint="nobody/nothing-at-all"))) == ["M606"]


@pytest.mark.slow
def test_weights_that_are_only_a_pickle_must_be_allowed(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").unlink()
    torch.save({}, checkpoint / "pytorch_model.bin")
    assert codes(lint_recipe(write_recipe(checkpoint))) == ["M602", "M606"]
    assert codes(lint_recipe(write_recipe(checkpoint, allow_pickle=True))) == ["M606"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "training_args.bin", "optimizer.pt", "forest.joblib", "data.pkl"]
)
def test_a_pickle_beside_safetensors_is_a_warning(checkpoint: Path, name: str) -> None:
    torch.save({"lr": 1}, checkpoint / name)
    finding = only(lint_recipe(write_recipe(checkpoint, samples=[SAMPLE])), "M603")
    assert (finding.where, finding.severity) == (name, "warning")


def test_a_secret_in_what_is_read_is_an_error_and_beside_it_a_warning(checkpoint: Path) -> None:
    recipe = write_recipe(checkpoint, samples=[SAMPLE])
    (checkpoint / ".env").write_text("X=1")
    (checkpoint / "runs").mkdir()
    (checkpoint / "runs/log.txt").write_text(TOKENS["a Hugging Face token"])
    assert [(one.code, one.where) for one in lint_recipe(recipe)] == [("M604", ".env"), ("M604", "runs/log.txt")]
    (checkpoint / "special_tokens_map.json").write_text(TOKENS["a Hugging Face token"])
    assert only(lint_recipe(recipe), "M405").where == "special_tokens_map.json"


def test_a_link_that_leaves_is_an_error_where_it_is_read_and_beside_it_a_warning(
    checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (checkpoint / "tokenizer.json").rename(elsewhere / "tokenizer.json")
    (checkpoint / "tokenizer.json").symlink_to(elsewhere / "tokenizer.json")
    (checkpoint / "passwords").symlink_to("/etc/hostname")
    findings = lint_recipe(write_recipe(checkpoint, samples=[SAMPLE]))
    assert [(one.code, one.where) for one in findings] == [("M412", "tokenizer.json"), ("M604", "passwords")]


@pytest.mark.slow
def test_links_of_the_hubs_cache_stay_in_their_repository(tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "models--a--b/snapshots/0123abc", tmp_path / "models--a--b/blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, file in enumerate(sorted(sentiment_checkpoint(tmp_path / "whole").iterdir())):
        file.rename(blobs / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    recipe = write_recipe(tmp_path, checkpoint=str(snapshot), samples=[SAMPLE])
    assert lint_recipe(recipe) == []


@pytest.mark.slow
def test_only_so_many_files_of_a_directory_are_looked_at(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkpoint / "zz.env").mkdir()
    (checkpoint / "zz.env/.env").write_text("")
    recipe = write_recipe(checkpoint, samples=[SAMPLE])
    assert codes(lint_recipe(recipe)) == ["M604"]
    monkeypatch.setattr("marsmith.lint.recipe.MAX_CHECKPOINT_FILES", 3)
    assert codes(lint_recipe(recipe)) == []


@pytest.mark.slow
def test_linting_imports_no_torch_and_the_package_alone_no_pydantic(checkpoint: Path) -> None:
    recipe = write_recipe(checkpoint)
    code = (
        "import sys, pathlib, marsmith.lint\n"
        "assert not {'pydantic', 'yaml', 'marsmith.mar.members'} & set(sys.modules)\n"
        f"marsmith.lint.lint_recipe(pathlib.Path({str(recipe)!r}))\n"
        "assert not {'torch', 'transformers', 'onnx', 'onnxruntime'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
