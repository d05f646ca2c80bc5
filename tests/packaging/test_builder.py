"""A recipe becomes an archive: complete, reproducible, and equal to its checkpoint."""

import ast
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Literal

import onnx
import pytest
import torch
import yaml

from handlers.settings import Settings
from marsmith.builder import Built, build
from marsmith.errors import CheckpointError, ExportError, MarsmithError, RecipeError
from marsmith.network.choose import TOLERANCE
from tests.tiny import food_checkpoint, sentiment_checkpoint, write_recipe


def read(archive: Built, member: str) -> str:
    with zipfile.ZipFile(archive.path) as zip_file:
        return zip_file.read(member).decode("utf-8")


def names(archive: Built) -> set[str]:
    with zipfile.ZipFile(archive.path) as zip_file:
        return set(zip_file.namelist())


def test_the_archive_holds_what_the_design_says(sentiment_archive: Built) -> None:
    """pytorch/serve#464: a model is a folder of files, not one file."""
    members = names(sentiment_archive)
    assert {
        "sentiment.py",
        "handlers/base.py",
        "model/config.json",
        "model/tokenizer.json",
        "model/model.onnx",
        "model/model.weights",
        "model/serving.json",
        "model-config.yaml",
        "requirements.txt",
        "MAR-INF/MANIFEST.json",
        "MAR-INF/digests.json",
        "MAR-INF/golden.json",
        "MAR-INF/provenance.json",
        "MAR-INF/sbom.cdx.json",
    } <= members
    assert all(name.endswith(".py") for name in members if name.startswith("handlers/"))
    assert len(members) == sentiment_archive.members


def test_the_manifest_has_the_stock_schema(sentiment_archive: Built) -> None:
    manifest = json.loads(read(sentiment_archive, "MAR-INF/MANIFEST.json"))
    assert manifest["runtime"] == "python"
    assert manifest["archiverVersion"] == "0.12.0"
    assert manifest["model"] == {
        "modelName": "sentiment",
        "handler": "sentiment.py",
        "modelVersion": "1.0",
        "requirementsFile": "requirements.txt",
        "configFile": "model-config.yaml",
    }


def test_model_config_names_every_key_in_torchserves_own_spelling(sentiment_archive: Built) -> None:
    """pytorch/serve#2365, pytorch/serve#2038, pytorch/serve#2851, pytorch/serve#3339

    Left out or misspelt keys are ignored without a word. How long a worker may load, and how long a crashing one is
    started again, are among them: pytorch/serve#3261, pytorch/serve#2030, pytorch/serve#3034.
    """
    config = yaml.safe_load(read(sentiment_archive, "model-config.yaml"))
    assert config["minWorkers"] == config["maxWorkers"] == 1
    assert (config["batchSize"], config["maxBatchDelay"]) == (16, 1)
    assert {"responseTimeout", "startupTimeout", "maxRetryTimeoutInSec", "jobQueueSize"} <= set(config)
    assert all(type(config[key]) is int for key in config if key.startswith("max") or key.endswith("Timeout"))


def test_requirements_are_exact_and_hold_no_torch(sentiment_archive: Built, food_archive: Built) -> None:
    """pytorch/serve#2238: torch in the requirements would be downloaded again at load."""
    for archive, wanted in ((sentiment_archive, "tokenizers"), (food_archive, "pillow")):
        lines = read(archive, "requirements.txt").split()
        assert {line.partition("==")[0] for line in lines} == {"numpy", "onnxruntime", wanted}
        assert all("==" in line for line in lines)


def test_the_entry_module_defines_exactly_one_class(sentiment_archive: Built, food_archive: Built) -> None:
    """pytorch/serve#1260: TorchServe counts every class that the module defines."""
    for archive, entry in ((sentiment_archive, "sentiment.py"), (food_archive, "food.py")):
        body = ast.parse(read(archive, entry)).body
        assert sum(isinstance(node, ast.ClassDef) for node in body) == 1


def test_both_halves_read_serving_json_alike(sentiment_archive: Built, food_archive: Built, tmp_path: Path) -> None:
    for archive in (sentiment_archive, food_archive):
        text = read(archive, "model/serving.json")
        file = tmp_path / "serving.json"
        file.write_text(text, encoding="utf-8")
        settings, written = Settings.load(file, environ={}), json.loads(text)
        assert list(settings.labels) == written["labels"]
        for section in ("text", "image"):
            ours = getattr(settings, section)
            assert (ours is None) == (written[section] is None)
            for key, value in (written[section] or {}).items():
                assert getattr(ours, key) == (tuple(value) if isinstance(value, list) else value)


def test_nutrition_keeps_unknown_numbers_unknown(food_archive: Built) -> None:
    entry = json.loads(read(food_archive, "model/nutrition.json"))["apple"]
    assert entry["per_100g"]["energy_kcal"] == 61
    assert "salt_g" not in entry["per_100g"]
    assert (entry["serving_g"], entry["source"], entry["source_id"]) == (200, "USDA", "1")
    assert entry["licence"] == "public domain"


def test_nutrition_is_told_for_a_serving_too(food_archive: Built) -> None:
    entry = json.loads(read(food_archive, "model/nutrition.json"))["apple"]
    assert entry["per_serving"]["energy_kcal"] == 122
    assert entry["per_serving"]["sugar_g"] == 24.2
    assert entry["per_serving"].keys() == entry["per_100g"].keys()


@pytest.mark.build
@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_the_packed_graph_agrees_with_the_checkpoint(tmp_path: Path, model_type: Literal["bert", "roberta"]) -> None:
    sentiment_checkpoint(tmp_path, model_type=model_type)
    built = build(write_recipe(tmp_path, name="m", task="sentiment", checkpoint="."), tmp_path / "out")
    assert built.parity is not None
    assert 0 <= built.parity < TOLERANCE


@pytest.mark.build
def test_a_graph_that_disagrees_is_never_packed(sentiment_recipe: Path, tmp_path: Path, monkeypatch: Any) -> None:
    from marsmith.network import text_reference

    cases = text_reference.TextReference.cases

    def shifted(self: Any) -> Any:
        return ((feeds, logits + 0.01) for feeds, logits in cases(self))

    monkeypatch.setattr(text_reference.TextReference, "cases", shifted)
    with pytest.raises(ExportError, match=r"logits differ from the checkpoint's by 0\.01"):
        build(sentiment_recipe, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_two_builds_have_the_same_bytes_wherever_and_whoever(
    sentiment_recipe: Path, sentiment_archive: Built, tmp_path: Path
) -> None:
    """Another process, directory, file order, time zone, umask, locale, hash seed and number of threads."""
    copy = tmp_path / "elsewhere/deeper"
    copy.mkdir(parents=True)
    for file in sorted(sentiment_recipe.parent.iterdir(), reverse=True):
        shutil.copyfile(file, copy / file.name)
    code = "import os; os.umask(0o077); from marsmith.cli import main; main()"
    environ = {
        "TZ": "Pacific/Chatham",
        "PYTHONHASHSEED": "7",
        "LC_ALL": "C",
        "HOME": str(tmp_path),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", code, "build", str(copy), "-o", str(tmp_path / "store"), "--json"]
    result = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    second = tmp_path / "store/sentiment.mar"
    assert json.loads(result.stdout)["path"] == str(second)
    assert second.read_bytes() == sentiment_archive.path.read_bytes()


def test_the_graph_does_not_tell_which_build_of_torch_exported_it(sentiment_archive: Built) -> None:
    with zipfile.ZipFile(sentiment_archive.path) as zip_file:
        graph = onnx.load_from_string(zip_file.read("model/model.onnx"))
    assert (graph.producer_name, "+" in graph.producer_version) == ("pytorch", False)
    assert torch.__version__.startswith(graph.producer_version)


def test_nothing_of_this_machine_is_in_the_archive(sentiment_archive: Built, food_archive: Built) -> None:
    for archive in (sentiment_archive, food_archive):
        with zipfile.ZipFile(archive.path) as zip_file:
            for name in zip_file.namelist():
                content = zip_file.read(name)
                assert str(Path.home()).encode() + b"/" not in content, name
                assert str(Path(__file__).parents[2]).encode() not in content, name
                assert b"site-packages" not in content, name


def test_weights_that_are_missing_are_not_made_up(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    sentiment_checkpoint(tmp_path)
    weights = {k: v for k, v in load_file(tmp_path / "model.safetensors").items() if not k.startswith("classifier")}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"lacks weights \(classifier"):
        build(write_recipe(tmp_path, name="m", task="sentiment", checkpoint="."), tmp_path / "out")


@pytest.mark.build
def test_too_few_labels_are_refused(tmp_path: Path) -> None:
    food_checkpoint(tmp_path, labels=("a", "b", "c"))
    recipe = write_recipe(tmp_path, name="m", task="food", checkpoint=".", labels=["a", "b"])
    with pytest.raises(CheckpointError, match="3 logits, but there are 2 labels"):
        build(recipe, tmp_path / "out")


def test_a_nutrition_table_without_its_columns_is_refused(tmp_path: Path) -> None:
    food_checkpoint(tmp_path)
    (tmp_path / "n.csv").write_text("dish,kcal\napple,61\n")
    recipe = write_recipe(tmp_path, name="m", task="food", checkpoint=".", nutrition="n.csv")
    with pytest.raises(RecipeError, match=r"nutrition table .*n\.csv cannot be used"):
        build(recipe, tmp_path / "out")


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    sentiment_checkpoint(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(MarsmithError):
        build(write_recipe(tmp_path, name="m", task="sentiment", checkpoint="."), tmp_path / "out")
    assert not (tmp_path / "out").exists()
