"""A handler of one's own in a recipe: what is wrong with it is found before anything is loaded, exported or run."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from marsmith.builder import build
from marsmith.errors import CheckpointError, LintError, MarsmithError, RecipeError
from marsmith.lint import lint_recipe
from tests.packaging.lint.test_lint_secrets import TOKENS
from tests.packaging.lint.trees import codes, only
from tests.tiny import sentiment_checkpoint, write_recipe

HANDLER = """
from handlers.base import BatchHandler
from handlers.decoding import text_of


class Length(BatchHandler):
    def decode(self, item):
        return text_of(item, 100)

    def predict(self, instances):
        return [len(text) for text in instances]

    def encode(self, result):
        return result
"""
SAMPLES = [{"text": "four"}]


def custom(directory: Path, code: str = HANDLER, file: str = "length.py", **keys: Any) -> Path:
    """A recipe without a checkpoint, and its handler."""
    (directory / file).parent.mkdir(parents=True, exist_ok=True)
    (directory / file).write_text(code, encoding="utf-8")
    values = {"task": "custom", "checkpoint": ..., "handler": file, "samples": SAMPLES} | keys
    return write_recipe(directory, **values)


def refusal(recipe: Path, out: Path) -> str:
    """The one sentence that a build of it says; nothing is written."""
    with pytest.raises(MarsmithError) as raised:
        build(recipe, out)
    assert not out.exists()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_sound_handler_has_no_finding(tmp_path: Path) -> None:
    assert lint_recipe(custom(tmp_path)) == []


def test_a_custom_recipe_without_samples_would_be_tested_by_nothing(tmp_path: Path) -> None:
    recipe = custom(tmp_path, samples=[])
    assert codes(lint_recipe(recipe)) == ["M609"]
    assert "nothing would test the archive. Add [[samples]]" in refusal(recipe, tmp_path / "out")


@pytest.mark.slow
def test_a_handler_over_a_checkpoint_has_probes(tmp_path: Path) -> None:
    sentiment_checkpoint(tmp_path)
    finding = only(lint_recipe(custom(tmp_path, task="sentiment", checkpoint=".", samples=[])), "M606")
    assert (finding.severity, "only built-in probes" in finding.message) == ("warning", True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "finding", "where"),
    [
        (HANDLER + "\nclass Second: ...\n", "M105", "length.py"),
        ("x = 1\n", "M105", "length.py"),
        ("import nowhere_to_be_found\n" + HANDLER, "M107", "length.py:1"),
        ("from handlers.food import Cook\n" + HANDLER, "M107", "length.py:1"),
        (HANDLER.replace("class Length", "class Length("), "M103", "length.py:6"),
        (HANDLER + "    def handle(self, data):\n        return data\n", "M106", "length.py:15"),
        (f'KEY = "{TOKENS["a Hugging Face token"]}"\n' + HANDLER, "M405", "length.py"),
    ],
)
def test_the_file_is_linted_as_any_handler_is(tmp_path: Path, code: str, finding: str, where: str) -> None:
    recipe = custom(tmp_path, code)
    assert only(lint_recipe(recipe), finding).where == where
    assert f"{finding} {where}" in refusal(recipe, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("from lexicon.words import W", "model.lexicon.words"),
        ("import lexicon.words", "model.lexicon.words"),
        ("from lexicon import words", "model.lexicon"),
        ("from .lexicon.words import W", "model.lexicon.words"),
        ("from . import lexicon", "model.lexicon"),
    ],
)
def test_a_module_among_the_extra_files_is_imported_by_another_name(tmp_path: Path, statement: str, name: str) -> None:
    (tmp_path / "lexicon").mkdir()
    (tmp_path / "lexicon/words.py").write_text("W = 1\n")
    recipe = custom(tmp_path, f"{statement}\n{HANDLER}", extra_files=["lexicon"])
    assert only(lint_recipe(recipe), "M107").remedy == f"Import it as {name}: it lies in model/."
    custom(tmp_path, f"from model.lexicon.words import W\n{HANDLER}", extra_files=["lexicon"])
    assert lint_recipe(recipe) == []


@pytest.mark.slow
def test_a_remedy_names_the_keys_of_the_recipe(tmp_path: Path) -> None:
    """There is no requirements.txt to be written in."""
    remedy = only(lint_recipe(custom(tmp_path, "import lexicon.words\n" + HANDLER)), "M107").remedy
    assert "key extra_files and import it as model.NAME, require a package in its key requirements" in remedy
    remedy = only(lint_recipe(custom(tmp_path, HANDLER + "\nclass Helper: ...\n")), "M105").remedy
    assert "put others into a file beside it, such as NAME.py, name that in the recipe's key extra_files" in remedy
    assert "import it as model.NAME" in remedy


def test_nothing_heavy_is_begun_for_a_handler_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("the hub was asked"))
    recipe = custom(tmp_path, HANDLER + "\nclass Second: ...\n", task="sentiment", checkpoint="owner/name")
    with pytest.raises(LintError, match="M105"):
        build(recipe, tmp_path / "out")


def test_a_checkpoint_that_is_not_whole_is_an_error_of_its_own(tmp_path: Path) -> None:
    recipe = custom(tmp_path, task="sentiment", checkpoint="./nowhere")
    with pytest.raises(CheckpointError, match="There is no checkpoint directory"):
        build(recipe, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("file", ["tokenizers.py", "numpy.py", "json.py", "ts.py"])
def test_a_handler_that_hides_a_package_is_refused(tmp_path: Path, file: str) -> None:
    assert only(lint_recipe(custom(tmp_path, file=file)), "M108").where == file


@pytest.mark.parametrize("make", [lambda file: file.unlink(), lambda file: (file.unlink(), file.mkdir())])
def test_a_handler_that_is_no_file_is_named(tmp_path: Path, make: Any) -> None:
    recipe = custom(tmp_path)
    make(tmp_path / "length.py")
    assert only(lint_recipe(recipe), "M605").where == "handler"
    assert refusal(recipe, tmp_path / "out").startswith("There is no handler ")


@pytest.mark.parametrize("keys", [{"handler": "h" * 300 + ".py"}, {"task": "sentiment", "checkpoint": "c" * 300}])
def test_a_name_that_no_system_takes_is_a_file_that_is_not_there(tmp_path: Path, keys: dict[str, str]) -> None:
    recipe = custom(tmp_path, **keys)
    assert {one.code for one in lint_recipe(recipe)} <= {"M605", "M601"}
    assert refusal(recipe, tmp_path / "out").startswith("There is no ")


def test_the_checkpoint_is_looked_at_although_the_handler_is_missing(tmp_path: Path) -> None:
    recipe = custom(tmp_path, task="sentiment", checkpoint="./nowhere")
    (tmp_path / "length.py").unlink()
    assert codes(lint_recipe(recipe)) == ["M601", "M605"]


@pytest.mark.slow
def test_a_package_that_only_this_machine_has_must_be_required(tmp_path: Path) -> None:
    """It is installed here, so every test passes here: TorchServe's worker fails elsewhere."""
    code = "import safetensors.numpy\n" + HANDLER
    finding = only(lint_recipe(custom(tmp_path, code)), "M607")
    pin = f"safetensors=={version('safetensors')}"
    assert (finding.where, pin in finding.remedy) == ("length.py:1", True)
    assert lint_recipe(custom(tmp_path, code, requirements=[pin])) == []


@pytest.mark.slow
def test_what_the_handlers_of_marsmith_need_must_be_required_too(tmp_path: Path) -> None:
    code = "from handlers.text import TextEncoder\n" + HANDLER
    finding = only(lint_recipe(custom(tmp_path, code)), "M607")
    assert finding.where.startswith("handlers/text.py:")
    assert lint_recipe(custom(tmp_path, code, requirements=[f"tokenizers=={version('tokenizers')}"])) == []


@pytest.mark.slow
def test_what_the_server_brings_need_not_be_required(tmp_path: Path) -> None:
    code = "import sys, re, torch, yaml, psutil\nfrom PIL import Image\n" + HANDLER
    assert lint_recipe(custom(tmp_path, code)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("requirement", "code", "says"),
    [
        ("torch==2.13.0", "M304", "torch would be downloaded again"),
        ("torchserve==0.12.0", "M304", "torchserve would be downloaded again"),
        ("NVIDIA_cublas==1.0", "M304", "nvidia-cublas would be downloaded again"),
        ("safetensors==0.0.1", "M608", f"but {version('safetensors')} is installed here"),
        ("no-such-package-anywhere==1.0", "M608", "but none is installed here"),
    ],
)
def test_a_requirement_that_cannot_be_had_as_it_is_tested_is_refused(
    tmp_path: Path, requirement: str, code: str, says: str
) -> None:
    recipe = custom(tmp_path, requirements=[requirement])
    (finding,) = lint_recipe(recipe)  # one remedy for one mistake
    assert (finding.code, says in finding.message) == (code, True)
    assert "requirements" in refusal(recipe, tmp_path / "out")


@pytest.mark.build
@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ("serving.json", "has the name of what the build writes there"),
        ("serving.json/deep.txt", "has the name of what the build writes there"),
        ("tokenizer.json", "has the name of what the build writes there"),
        ("model.onnx", "has the name of what the build writes there"),
        ("absent.txt", r"There is no extra file .*absent\.txt"),
        ("linked.txt", "is a link out of the recipe's directory"),
        ("folder", r"The link .*folder/inner\.txt leaves"),
        ("empty", "The extra directory .*empty holds nothing that is packed: put a file into it"),
        ("stale", "The extra directory .*stale holds nothing that is packed"),
        ("round", r"(is a link that leads back to itself: repair the link|There is no extra file .*round)"),
        ("folder/round", r"(is a link that leads back to itself: repair the link|There is no extra file .*round)"),
        ("n" * 300, "There is no extra file .*nnn"),
    ],
)
def test_extra_files_that_cannot_be_packed_are_refused(tmp_path: Path, extra: str, says: str) -> None:
    home = tmp_path / "home"
    sentiment_checkpoint(home)
    (tmp_path / "secret").write_text("outside")
    (home / "linked.txt").symlink_to(tmp_path / "secret")
    for name in ("folder", "empty", "stale/__pycache__"):
        (home / name).mkdir(parents=True)
    (home / "stale/__pycache__/a.pyc").write_bytes(b"stale")
    (home / "folder/inner.txt").symlink_to(tmp_path / "secret")
    for name in ("round", "folder/round"):
        (home / name).symlink_to("round")
    if extra in ("serving.json", "model.onnx"):
        (home / extra).write_text("{}")
    if extra.startswith("serving.json/"):
        (home / extra).parent.mkdir()
        (home / extra).write_text("mine")
    recipe = custom(home, task="sentiment", checkpoint=".", extra_files=[extra])
    assert only(lint_recipe(recipe), "M605").where == "extra_files"
    with pytest.raises(RecipeError, match=says):
        build(recipe, tmp_path / "out")


def test_without_a_network_its_names_are_free(tmp_path: Path) -> None:
    """A handler may run a graph of its own."""
    (tmp_path / "model.onnx").write_bytes(b"a graph")
    (tmp_path / "config.json").write_text("{}")
    assert lint_recipe(custom(tmp_path, extra_files=["model.onnx", "config.json"])) == []
