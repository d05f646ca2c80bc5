"""A checkpoint's own code is never run, asked about or fetched, and nothing outside its directory is read."""

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForSequenceClassification

from marsmith.errors import CheckpointError
from marsmith.lint import lint_recipe
from marsmith.network.pretrained import guarded, load_image_processor, load_model, load_tokenizer
from marsmith.recipe.checkpoint import Checkpoint, resolve
from marsmith.recipe.foreign import SETTINGS, foreign
from marsmith.recipe.recipe import Recipe
from tests.tiny import SENTIMENTS, food_checkpoint, sentiment_checkpoint, write_recipe

AUTO_MAP = {"AutoConfig": "own.OwnConfig", "AutoModelForSequenceClassification": "own.OwnModel"}
OWN_CODE = "import pathlib\npathlib.Path({mark!r}).write_text('ran')\n"


class Untouchable:
    """Standard input that must not be read."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"standard input was asked for {name}")


def change(directory: Path, name: str, **values: Any) -> None:
    file = directory / name
    before = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**before, **values}))


def refused(directory: Path, task: str = "sentiment") -> str:
    with pytest.raises(CheckpointError) as raised:
        resolve(Recipe.load(write_recipe(directory, task=task)))
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint beside code that leaves a mark when it runs; "yes" stands on nobody's standard input."""
    monkeypatch.setattr(sys, "stdin", Untouchable())
    directory = sentiment_checkpoint(tmp_path / "checkpoint")
    (directory / "own.py").write_text(OWN_CODE.format(mark=str(tmp_path / "mark")))
    return directory


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(
    "value",
    [AUTO_MAP, ["own.Slow", "own.Fast"], "owner/repository--own.OwnModel", {"AutoTokenizer": ["own.Slow", None]}],
    ids=["an object", "a list", "another repository", "a pair"],
)
def test_code_of_its_own_is_refused_in_every_settings_file(checkpoint: Path, name: str, value: Any) -> None:
    change(checkpoint, name, auto_map=value)
    said = refused(checkpoint)
    assert f"The key auto_map of {name} names Python code of the checkpoint's own, which is never run." in said
    for load in (load_tokenizer, load_image_processor):
        with pytest.raises(CheckpointError, match="auto_map"):
            load(checkpoint)
    with pytest.raises(CheckpointError, match="auto_map"):
        load_model(AutoModelForSequenceClassification, Checkpoint(checkpoint, "local", {}, [*SENTIMENTS]))
    assert not (checkpoint.parent / "mark").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "values", "key"),
    [
        ("config.json", {"text_config": {"inner": [{"auto_map": AUTO_MAP}]}}, "auto_map"),
        ("config.json", {"custom_pipelines": {"x": {"impl": "own.Pipeline"}}}, "custom_pipelines"),
        ("config.json", {"_attn_implementation": "kernels-community/flash-attn"}, "_attn_implementation"),
        ("config.json", {"attn_implementation": {"": "sdpa", "text": "owner/kernel:f"}}, "attn_implementation"),
        ("config.json", {"vision_config": {"_attn_implementation": "flash_attention_2"}}, "_attn_implementation"),
        ("config.json", {"use_kernels": True}, "use_kernels"),
        ("config.json", {"kernel_config": {"Linear": "owner/kernel"}}, "kernel_config"),
        ("config.json", {"use_timm_backbone": True}, "use_timm_backbone"),
        ("config.json", {"backbone": "owner/backbone", "use_pretrained_backbone": True}, "use_pretrained_backbone"),
        ("config.json", {"quantization_config": {"quant_method": "bitsandbytes"}}, "quantization_config"),
        ("config.json", {"configuration_files": ["config.4.0.0.json"]}, "configuration_files"),
        ("config.json", {"transformers_weights": "../other.safetensors"}, "transformers_weights"),
        ("preprocessor_config.json", {"image_processor": {"auto_map": AUTO_MAP}}, "auto_map"),
        ("adapter_config.json", {"base_model_name_or_path": "owner/base"}, "base_model_name_or_path"),
    ],
)
def test_what_is_fetched_or_run_is_refused_by_file_and_key(
    checkpoint: Path, name: str, values: dict[str, Any], key: str
) -> None:
    change(checkpoint, name, **values)
    assert f"The key {key} of {name} " in refused(checkpoint)
    findings = [one for one in lint_recipe(checkpoint / "recipe.toml") if one.code.startswith("M60")]
    (finding,) = [one for one in lint_recipe(checkpoint / "recipe.toml") if one.code == "M611"]
    assert finding.where == name
    assert "M601" not in {one.code for one in findings}


@pytest.mark.parametrize(
    "values",
    [
        {"_attn_implementation": "sdpa"},
        {"attn_implementation": None, "use_kernels": False, "quantization_config": None},
        {"use_timm_backbone": False, "backbone": None},
        {"auto_map": {}},
        {
            "label2id": {"negative": 0, "neutral": 1, "auto_map": 2},
            "id2label": {"0": "negative", "1": "neutral", "2": "auto_map"},
        },
    ],
)
def test_what_needs_nothing_is_not_refused(checkpoint: Path, values: dict[str, Any]) -> None:
    change(checkpoint, "config.json", **values)
    recipe = Recipe.load(write_recipe(checkpoint))
    load_model(AutoModelForSequenceClassification, resolve(recipe))


OUTSIDE = {
    "vocab_file": "../outside.txt",
    "tokenizer_file": "{outside}",
    "merges_file": "{outside}",
    "vocab": "{outside}",
    "merges": "../outside.txt",
    "init_inputs": ["{outside}"],
    "fast_tokenizer_files": ["../outside.txt"],
    "chat_template_file": "../outside.txt",
}


@pytest.mark.parametrize("key", OUTSIDE)
def test_a_file_outside_the_directory_is_never_named(checkpoint: Path, key: str) -> None:
    outside = checkpoint.parent / "outside.txt"
    outside.write_text("[PAD]\nsecret\n")
    value = json.loads(json.dumps(OUTSIDE[key]).replace("{outside}", str(outside)))
    change(checkpoint, "tokenizer_config.json", **{key: value})
    said = refused(checkpoint)
    assert f"The key {key} of tokenizer_config.json names " in said
    assert "is not a file in the checkpoint's directory" in said


def test_a_note_of_where_a_file_once_was_is_harmless(checkpoint: Path) -> None:
    """Old versions of transformers saved such paths, and no version reads them."""
    change(
        checkpoint, "tokenizer_config.json", special_tokens_map_file="/nowhere/cache/abc", tokenizer_file="/nowhere/x"
    )
    resolve(Recipe.load(write_recipe(checkpoint)))
    assert load_tokenizer(checkpoint)("a great day")["input_ids"]


@pytest.mark.parametrize(
    "shard",
    [
        *("../x.safetensors", "/etc/passwd", "a/b.safetensors", "a\\b.safetensors", "C:x.safetensors", "..", ""),
        *(7, None, [], "pytorch_model.bin", "x\0.safetensors", "x\n.safetensors"),
    ],
)
def test_an_index_names_safetensors_files_beside_it_only(checkpoint: Path, shard: Any) -> None:
    (checkpoint / "model.safetensors").rename(checkpoint / "model-1.safetensors")
    index = checkpoint / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"a": "model-1.safetensors"}}))
    resolve(Recipe.load(write_recipe(checkpoint)))
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": shard}}))
    assert "weights are read from the checkpoint's own directory only" in refused(checkpoint)


@pytest.mark.parametrize("weight_map", [None, [], {}, "x", 3])
def test_an_index_without_files_is_one_sentence(checkpoint: Path, weight_map: Any) -> None:
    (checkpoint / "model.safetensors").unlink()
    (checkpoint / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert "has no weight_map that names the files" in refused(checkpoint)


def test_nothing_of_a_local_checkpoint_is_fetched(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    change(checkpoint, "config.json", _name_or_path="owner/model")
    change(checkpoint, "tokenizer_config.json", name_or_path="mistralai/model")
    load_tokenizer(checkpoint)
    load_model(AutoModelForSequenceClassification, resolve(Recipe.load(write_recipe(checkpoint))))


def test_a_processor_is_loaded_by_its_own_class_whatever_code_lies_beside(tmp_path: Path) -> None:
    directory = food_checkpoint(tmp_path)
    (directory / "own.py").write_text("raise SystemExit('ran')\n")
    assert type(load_image_processor(directory)).__name__ == "ViTImageProcessorPil"
    assert list(foreign(directory)) == []


def test_a_panic_of_a_rust_library_is_one_sentence() -> None:
    class Panic(BaseException):
        """As PyO3 raises it."""

    with (
        pytest.raises(CheckpointError, match=r"^The tokenizer cannot be used: index out of bounds\. Save it again\.$"),
        guarded("The tokenizer cannot be used", "Save it again."),
    ):
        raise Panic("index out of bounds\nmore")
    with pytest.raises(KeyboardInterrupt), guarded("x"):
        raise KeyboardInterrupt
