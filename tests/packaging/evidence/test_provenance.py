"""The provenance names every file that the build read, by a digest that is the file's, and is the same everywhere."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from marsmith.errors import RecipeError
from marsmith.evidence import provenance as module
from marsmith.evidence.provenance import inputs, origin, provenance
from marsmith.recipe.checkpoint import Checkpoint, resolve
from marsmith.recipe.recipe import Recipe
from tests.tiny import write_recipe

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PRODUCTS = {"model/model.weights": "cd" * 32, "model/model.onnx": "ab" * 32}
# What the provenance of another process is compared by: the recipe's directory is its argument.
PRINT_PROVENANCE = f"""
import sys
from pathlib import Path
from marsmith.recipe.checkpoint import resolve
from marsmith.evidence.provenance import inputs, provenance
from marsmith.recipe.recipe import Recipe
file = Path(sys.argv[1]) / "recipe.toml"
recipe = Recipe.load(file)
checkpoint = resolve(recipe)
text = provenance(recipe, checkpoint, inputs(recipe, checkpoint), {PRODUCTS})
sys.stdout.buffer.write(text)
"""


def local(path: Path) -> Checkpoint:
    return Checkpoint(path, "local", {}, ["a"])


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write(directory: Path, *names: str) -> None:
    """Files that each hold their own name."""
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(name)


def names_read(recipe: Recipe) -> list[str]:
    return [name.removeprefix("checkpoint/") for name in inputs(recipe, local(recipe.directory))]


def statement(recipe: Recipe, checkpoint: Checkpoint, materials: dict[str, str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(provenance(recipe, checkpoint, materials, PRODUCTS))
    return document


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return Recipe.load(write_recipe(tmp_path))


def test_it_is_an_in_toto_statement_with_slsa_provenance_of_the_products(recipe: Recipe) -> None:
    document = statement(recipe, local(recipe.directory), {})
    assert document["_type"] == "https://in-toto.io/Statement/v1"
    assert document["predicateType"] == "https://slsa.dev/provenance/v1"
    assert document["subject"] == [
        {"name": "model/model.onnx", "digest": {"sha256": "ab" * 32}},
        {"name": "model/model.weights", "digest": {"sha256": "cd" * 32}},
    ]
    assert set(document["predicate"]) == {"buildDefinition", "runDetails"}


def test_the_one_external_parameter_is_the_recipe(recipe: Recipe) -> None:
    definition = statement(recipe, local(recipe.directory), {})["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"recipe": {"name": "tiny", "digest": {"sha256": sha256(recipe.toml)}}}


def test_the_materials_are_the_dependencies_in_the_order_of_their_names(recipe: Recipe) -> None:
    materials = {"samples/a.jpg": "12" * 32, "checkpoint/config.json": "34" * 32}
    definition = statement(recipe, local(recipe.directory), materials)["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"] == [
        {"name": "checkpoint/config.json", "digest": {"sha256": "34" * 32}},
        {"name": "samples/a.jpg", "digest": {"sha256": "12" * 32}},
    ]


def test_the_builder_names_releases_without_their_local_part_and_no_python(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "version", dict.fromkeys(module.BUILDER_PACKAGES, "1.0").__getitem__)
    plain = statement(recipe, local(recipe.directory), {})["predicate"]["runDetails"]
    monkeypatch.setattr(module, "version", dict.fromkeys(module.BUILDER_PACKAGES, "1.0+cpu").__getitem__)
    assert statement(recipe, local(recipe.directory), {})["predicate"]["runDetails"] == plain
    assert set(plain) == {"builder"}  # no clock, no invocation
    assert plain["builder"]["version"]["torch"] == "1.0"
    assert {"marsmith", "transformers", "tokenizers", "onnx", "onnxscript", "safetensors", "numpy"} <= set(
        plain["builder"]["version"]
    )
    assert "python" not in plain["builder"]["version"]


def test_a_build_of_the_starter_kind_reads_settings_tokenizer_and_weights(sentiment_recipe: Path) -> None:
    recipe = Recipe.load(sentiment_recipe)
    read = inputs(recipe, resolve(recipe))
    assert {"checkpoint/config.json", "checkpoint/tokenizer.json", "checkpoint/model.safetensors"} <= set(read)
    for name, digest in read.items():
        assert digest == sha256((recipe.directory / name.removeprefix("checkpoint/")).read_bytes())


def test_table_and_pictures_have_the_names_that_the_recipe_gives_them(tmp_path: Path) -> None:
    write(tmp_path, "nutrition.csv", "food/pictures/a.jpg", "weights/config.json")
    samples = [{"image": name, "expect": "a"} for name in ("pictures/a.jpg", "./pictures/a.jpg")]
    keys: dict[str, Any] = {"task": "food", "checkpoint": "../weights", "nutrition": "../nutrition.csv"}
    recipe = Recipe.load(write_recipe(tmp_path / "food", **keys, samples=samples))
    assert inputs(recipe, local(tmp_path / "weights")) == {
        "../nutrition.csv": sha256(b"nutrition.csv"),
        "checkpoint/config.json": sha256(b"weights/config.json"),
        "pictures/a.jpg": sha256(b"food/pictures/a.jpg"),
    }


def test_files_that_no_build_reads_are_not_listed(recipe: Recipe) -> None:
    read = ["config.json", "merges.txt", "model.safetensors", "spiece.model"]
    write(recipe.directory, *read, "README.md", "optimizer.pt", ".config.json", "pytorch_model.bin", "onnx/vocab.txt")
    assert names_read(recipe) == read


def test_of_shards_those_are_listed_that_the_index_names(recipe: Recipe) -> None:
    index = {"weight_map": {"a": "part-2.safetensors", "b": "part-1.safetensors", "c": "part-2.safetensors"}}
    (recipe.directory / "model.safetensors.index.json").write_text(json.dumps(index))
    write(recipe.directory, "part-1.safetensors", "part-2.safetensors", "stale.safetensors")
    assert names_read(recipe) == ["model.safetensors.index.json", "part-1.safetensors", "part-2.safetensors"]


@pytest.mark.parametrize(
    ("files", "read"),
    [
        (["pytorch_model.bin"], ["pytorch_model.bin"]),
        (["model.safetensors", "pytorch_model.bin"], ["model.safetensors"]),
    ],
)
def test_a_pickle_is_read_only_where_it_is_allowed_and_alone(tmp_path: Path, files: list[str], read: list[str]) -> None:
    write(tmp_path, *files)
    assert names_read(Recipe.load(write_recipe(tmp_path, allow_pickle=True))) == read


def test_a_picture_that_is_missing_is_named_with_the_remedy(tmp_path: Path) -> None:
    recipe = Recipe.load(write_recipe(tmp_path, task="food", samples=[{"image": "gone.jpg", "expect": "a"}]))
    with pytest.raises(
        RecipeError, match=r"gone\.jpg that the recipe needs cannot be read: No such file.*Put it there"
    ):
        inputs(recipe, local(tmp_path))


def test_an_absolute_path_does_not_show(tmp_path: Path) -> None:
    write(tmp_path, "elsewhere/n.csv")
    recipe = Recipe.load(write_recipe(tmp_path, task="food", nutrition=tmp_path / "elsewhere/n.csv"))
    assert inputs(recipe, local(tmp_path)) == {"n.csv": sha256(b"elsewhere/n.csv")}


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.jpg", "two/a.jpg")
    samples = [{"image": "a.jpg", "expect": "a"}]
    recipe = Recipe.load(write_recipe(tmp_path, task="food", nutrition=tmp_path / "two/a.jpg", samples=samples))
    with pytest.raises(RecipeError, match=r"Two files of the recipe are called a\.jpg"):
        inputs(recipe, local(tmp_path))


def test_a_hub_checkpoint_is_a_dependency_by_its_commit(
    sentiment_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = Path(shutil.copytree(sentiment_recipe.parent, tmp_path / "snapshots" / COMMIT))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(snapshot))
    recipe = Recipe.load(write_recipe(tmp_path, checkpoint="Owner/Fine_Tuned", revision="main"))
    checkpoint = resolve(recipe)
    document = statement(recipe, checkpoint, inputs(recipe, checkpoint))
    first, *files = document["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert first == {"uri": f"pkg:huggingface/Owner/Fine_Tuned@{COMMIT}", "digest": {"gitCommit": COMMIT}}
    assert "checkpoint/config.json" in [entry["name"] for entry in files]


def test_a_local_checkpoint_has_no_origin(tmp_path: Path) -> None:
    assert origin(local(tmp_path)) is None


def test_another_machine_writes_the_same_bytes(food_recipe: Path, tmp_path: Path) -> None:
    """Another directory, user, time zone, locale, hash seed and working directory."""
    clone = Path(shutil.copytree(food_recipe.parent, tmp_path / "zebulon"))

    def provenance_of(directory: Path, **environment: str) -> bytes:
        return subprocess.run(
            [sys.executable, "-c", PRINT_PROVENANCE, directory],
            env={**os.environ, **environment},
            cwd=directory,
            capture_output=True,
            check=True,
        ).stdout

    here = provenance_of(food_recipe.parent, TZ="UTC", PYTHONHASHSEED="1")
    user = {"HOME": str(tmp_path), "USER": "zebulon", "LOGNAME": "zebulon", "HOSTNAME": "zebulon"}
    there = provenance_of(clone, TZ="Pacific/Chatham", PYTHONHASHSEED="2", LC_ALL="C", **user)
    assert there == here
    assert b'"nutrition.csv"' in here
    assert b"zebulon" not in there
    assert str(food_recipe.parent).encode() not in here
    assert b"python" not in here.lower()


def test_another_byte_of_an_input_shows(recipe: Recipe) -> None:
    write(recipe.directory, "config.json")
    before = inputs(recipe, local(recipe.directory))
    (recipe.directory / "config.json").write_text("other")
    assert inputs(recipe, local(recipe.directory)) != before
