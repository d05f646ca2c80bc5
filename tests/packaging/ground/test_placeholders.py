"""What stands in the place of a file is called what it is, wherever a file comes in."""

import io
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from marsmith.archiver import archive
from marsmith.builder import build
from marsmith.errors import CheckpointError, LintError, RecipeError
from marsmith.evidence.golden import questions
from marsmith.ground.placeholders import placeholder
from marsmith.lint import lint_archive, lint_recipe
from marsmith.mar.writer import write_archive
from marsmith.recipe.checkpoint import resolve
from marsmith.recipe.nutrition import read_table
from marsmith.recipe.recipe import Recipe
from tests.packaging.forgery import members
from tests.tiny import food_checkpoint, sentiment_checkpoint, write_recipe

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 498627950\n"
KINDS: dict[str, tuple[bytes, str]] = {
    "a Git LFS pointer": (LFS, "a Git LFS pointer, not the file itself: run git lfs pull"),
    "a pointer with a mark": (b"\xef\xbb\xbf" + LFS, "a Git LFS pointer"),
    "a pointer with Windows lines": (LFS.replace(b"\n", b"\r\n"), "a Git LFS pointer"),
    "a git-annex pointer": (b"/annex/objects/SHA256E-s42--ab.bin\n", "a git-annex pointer.*run git annex get"),
    "a link of git-annex": (b"../../.git/annex/objects/a/b/SHA256E-s4--ab/SHA256E-s4--ab", "a git-annex pointer"),
    "a page": (b"\n<!DOCTYPE HTML>\n<html lang='en'>404", "an HTML page"),
    "a page behind a comment": (b"<!-- cached -->\n<HTML><head>", "an HTML page"),
    "an XML error": (b'<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>', "an XML error message"),
    "a JSON error": (b'{"error": "Repository not found"}', "a JSON error message"),
    "another JSON error": (b'{"message": "Not Found", "status": 404}', "a JSON error message"),
    "nothing": (b"", "an empty file: download or copy it again"),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@pytest.mark.parametrize("name", ["model.safetensors", "weights/model.PT", "a.jpg", "spiece.model", "x.zip"])
def test_data_is_told_from_what_stands_for_it(name: str, kind: str) -> None:
    content, says = KINDS[kind]
    assert re.match(says, str(placeholder(name, content, len(content))))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("__init__.py", b""),
        ("py.typed", b""),
        ("notes.txt", b""),
        ("index.html", b"<!DOCTYPE html><html></html>"),
        ("page.jinja2", b"<html>{{ x }}</html>"),
        ("README.md", b"<h1>Model</h1>"),
        ("answers.json", b'{"error": "what the handler says"}'),
        ("labels.json", b'{"0": "cat"}'),
        ("feed.xml", b"<?xml version='1.0'?><Error/>"),
        ("model.onnx", b"\x08\x07\x12\x07pytorch"),
        ("model.pt", b"PK\x03\x04"),
        ("model.bin", b"\x80\x02}q\x00."),
        ("data.bin", b'{"error": "x", "rows": [1]}'),
        ("about-lfs.txt", b"The version https://git-lfs.github.com/spec/v1 is old."),
    ],
)
def test_content_is_content(name: str, content: bytes) -> None:
    assert placeholder(name, content, len(content)) is None


@pytest.mark.parametrize("name", ["vocab.txt", "labels.csv", "handler.py", "LICENSE", "requirements.txt"])
def test_a_pointer_or_a_page_is_no_text(name: str) -> None:
    assert "Git LFS" in str(placeholder(name, LFS, len(LFS)))
    assert "HTML page" in str(placeholder(name, b"<html>", 6))


@every_kind
@pytest.mark.parametrize(
    "name", ["model.safetensors", "pytorch_model.bin", "tokenizer.json", "vocab.txt", "spiece.model"]
)
def test_a_checkpoint_says_which_file_is_none(tmp_path: Path, name: str, kind: str) -> None:
    content, says = KINDS[kind]
    (tmp_path / "config.json").write_text(
        '{"architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "b"}}'
    )
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{name} is {says}"):
        resolve(Recipe.load(write_recipe(tmp_path, allow_pickle=True)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"])
def test_settings_too(tmp_path: Path, name: str) -> None:
    sentiment_checkpoint(tmp_path)
    (tmp_path / name).write_bytes(LFS)
    with pytest.raises(CheckpointError, match=f"{name} is a Git LFS pointer"):
        resolve(Recipe.load(write_recipe(tmp_path)))
    (finding,) = [one for one in lint_recipe(tmp_path / "recipe.toml") if one.code == "M601"]
    assert "run git lfs pull" in finding.message


@pytest.mark.slow
@every_kind
def test_a_samples_image(tmp_path: Path, kind: str) -> None:
    content, says = KINDS[kind]
    (tmp_path / "dish.jpg").write_bytes(content)
    recipe = Recipe.load(write_recipe(tmp_path, task="food", samples=[{"image": "dish.jpg"}]))
    with pytest.raises(RecipeError, match=f"dish.jpg is {says}"):
        list(questions(recipe))
    assert [one.where for one in lint_recipe(recipe) if one.code == "M605"] == ["samples 1: dish.jpg"]


@every_kind
def test_a_nutrition_table(tmp_path: Path, kind: str) -> None:
    content, says = KINDS[kind]
    (tmp_path / "n.csv").write_bytes(content)
    with pytest.raises(RecipeError, match=f"n.csv is {says}"):
        read_table(tmp_path / "n.csv")


@pytest.mark.build
def test_inputs_that_accuracy_is_measured_on(tmp_path: Path) -> None:
    food_checkpoint(tmp_path)
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (40, 40)).save(tmp_path / "photos/a.png")
    (tmp_path / "photos/b.png").write_bytes(LFS)
    recipe = write_recipe(tmp_path, task="food", precision="int8", accuracy={"inputs": "photos"})
    with pytest.raises(RecipeError, match=r"b\.png of accuracy\.inputs is a Git LFS pointer"):
        build(recipe, tmp_path / "out")


@pytest.mark.parametrize("part", ["serialized_file", "model_file", "extra_files", "requirements_file"])
def test_nothing_of_an_archive_is_a_pointer(tmp_path: Path, part: str) -> None:
    (tmp_path / "handler.py").write_text("def handle(data, context):\n    return data\n")
    suffix = {"serialized_file": "pt", "model_file": "py", "requirements_file": "txt"}.get(part, "bin")
    (tmp_path / f"file.{suffix}").write_bytes(LFS)
    named = str(tmp_path / f"file.{suffix}")
    keys = {part: [named] if part == "extra_files" else named}
    with pytest.raises(LintError, match=rf"M413 (file\.{suffix}|requirements\.txt): It is a Git LFS pointer"):
        archive(model_name="m", version="1.0", handler=str(tmp_path / "handler.py"), export_path=tmp_path, **keys)  # type: ignore[arg-type]
    assert not (tmp_path / "m.mar").exists()


def test_weights_of_any_name_have_content(tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text("def handle(data, context):\n    return data\n")
    (tmp_path / "weights").write_bytes(b"")
    with pytest.raises(LintError, match=r"M413 weights: It is an empty file\. Download or copy it again"):
        archive(
            model_name="m",
            version="1.0",
            handler=str(tmp_path / "handler.py"),
            serialized_file=str(tmp_path / "weights"),
            export_path=tmp_path,
        )


def test_lint_of_an_archive_that_was_packed_so(tmp_path: Path) -> None:
    page = b"<html>502 Bad Gateway</html>"
    files = {"h.py": b"def handle(d, c):\n    return d\n", "model.onnx": page, "x.bin": LFS, "pkg/__init__.py": b""}
    write_archive(tmp_path / "m.mar", members(files))
    found = {one.where: one.message for one in lint_archive(tmp_path / "m.mar") if one.code == "M413"}
    assert found.keys() == {"model.onnx", "x.bin"}
    assert "HTML page" in found["model.onnx"]


@pytest.mark.build
def test_a_sample_outside_the_recipes_directory_is_never_read(tmp_path: Path) -> None:
    """It would travel in the archive, whatever it is."""
    secret = tmp_path / "secret.png"
    Image.new("RGB", (8, 8)).save(stream := io.BytesIO(), "PNG")
    secret.write_bytes(stream.getvalue())
    directory = food_checkpoint(tmp_path / "food")
    for image in (str(secret), "../secret.png", "a/../../secret.png"):
        with pytest.raises(RecipeError, match=r"samples.* does not lie below the recipe's directory"):
            Recipe.load(write_recipe(directory, task="food", samples=[{"image": image}]))
    (directory / "link.png").symlink_to(secret)
    recipe = Recipe.load(write_recipe(directory, task="food", samples=[{"image": "link.png"}]))
    with pytest.raises(RecipeError, match=r"link\.png is a link out of the recipe's directory"):
        list(questions(recipe))
    assert "M605" in {one.code for one in lint_recipe(recipe)}
    with pytest.raises(LintError, match="M605"):
        build(recipe, tmp_path / "out")


@pytest.mark.parametrize("handler", ["../h.py", "/tmp/h.py", "a/../../h.py"])
def test_a_handler_outside_is_never_packed(tmp_path: Path, handler: str) -> None:
    with pytest.raises(RecipeError, match="does not lie below the recipe's directory"):
        Recipe.load(write_recipe(tmp_path, handler=handler))
    (tmp_path / "recipe").mkdir()
    shutil.copy(__file__, tmp_path / "h.py")
    (tmp_path / "recipe/h.py").symlink_to(tmp_path / "h.py")
    samples = [{"json": 1, "expect": {"a": 1}}]
    recipe = write_recipe(tmp_path / "recipe", task="custom", checkpoint=..., handler="h.py", samples=samples)
    (finding,) = [one for one in lint_recipe(recipe) if one.where == "handler"]
    assert "is a link out of the recipe's directory" in finding.message


@pytest.mark.parametrize(("task", "key"), [("sentiment", "image"), ("food", "text")])
def test_a_task_is_asked_with_what_it_reads(tmp_path: Path, task: str, key: str) -> None:
    with pytest.raises(RecipeError, match=f"samples 1: the {task} task reads"):
        Recipe.load(write_recipe(tmp_path, task=task, samples=[{key: "x.png"}]))
