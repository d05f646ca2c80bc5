"""Text files as editors leave them: marks, line ends, encodings."""

import codecs
import os
import threading
from pathlib import Path

import pytest

from marsmith.deploy.settings import read_table as deployment
from marsmith.errors import ClientError, DeployError, RecipeError
from marsmith.ground.files import NotUtf8, decoded, lines_of, read_lines, requirements_text
from marsmith.recipe.nutrition import read_table
from marsmith.recipe.recipe import Recipe
from marsmith.rest.client import text_lines
from marsmith.tune.edit import check_editable, edited, write
from tests.packaging.lint.trees import codes, lint_with

RECIPE = b'# mine\nname = "m"\ntask = "custom"\nhandler = "h.py"\n'
# What str.splitlines and text files split at beside a newline.
SEPARATORS = "\r \x0b \x0c \x1c \x1d \x1e \x85 \u2028 \u2029"


@pytest.mark.parametrize("separator", SEPARATORS.split(" "))
def test_only_a_newline_ends_a_line(tmp_path: Path, separator: str) -> None:
    text = f"one{separator}still one\ntwo\r\nthree{separator}\n"
    wanted = [f"one{separator}still one", "two", f"three{separator}".removesuffix("\r")]
    (tmp_path / "texts.txt").write_bytes(text.encode())
    for read in (read_lines, text_lines):
        assert read(tmp_path / "texts.txt") == wanted
    assert lines_of(text) == wanted


def test_an_empty_line_is_a_line_and_a_last_newline_is_none() -> None:
    assert [lines_of(text) for text in ("", "\n", "a", "a\n", "a\n\n", "\r\n")] == [
        [""],
        [""],
        ["a"],
        ["a"],
        ["a", ""],
        [""],
    ]


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_bytes(codecs.BOM_UTF8 + "naïve\r\n".encode())
    assert read_lines(tmp_path / "texts.txt") == ["naïve"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "latin-1"])
def test_text_in_another_encoding_is_called_that(tmp_path: Path, encoding: str) -> None:
    data = "é".encode(encoding) if encoding != "utf-16-be" else codecs.BOM_UTF16_BE + "é".encode(encoding)
    says = "not UTF-8" if encoding == "latin-1" else f"it is {encoding[:6].upper()} text: save it as UTF-8"
    with pytest.raises(NotUtf8, match=says):
        decoded(data)
    (tmp_path / "texts.txt").write_bytes(data)
    with pytest.raises(ClientError, match=says):
        text_lines(tmp_path / "texts.txt")
    (tmp_path / "recipe.toml").write_bytes(data)
    with pytest.raises(RecipeError, match=says):
        Recipe.load(tmp_path)


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_recipe_keeps_its_mark_and_line_ends_when_it_is_rewritten(tmp_path: Path, mark: bytes, end: bytes) -> None:
    file = tmp_path / "recipe.toml"
    file.write_bytes(mark + RECIPE.replace(b"\n", end))
    recipe = Recipe.load(file)
    check_editable(recipe, file)
    after = edited(recipe, file, recipe.model_copy(update={"top_k": recipe.top_k, "version": "2.0"}))
    write(recipe, after, file)
    content = file.read_bytes()
    assert content.startswith(mark + b"# mine" + end)
    assert content.count(codecs.BOM_UTF8) == bool(mark)
    assert Recipe.load(file).version == "2.0"


def test_a_deploy_file_may_have_a_mark(tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_bytes(codecs.BOM_UTF8 + b'[sagemaker]\nname = "m"\n')
    assert deployment(file) == {"name": "m"}
    file.write_bytes("[sagemaker]".encode("utf-16"))
    with pytest.raises(DeployError, match="UTF-16 text: save it as UTF-8"):
        deployment(file)


def test_a_nutrition_table_may_have_a_mark_and_a_carriage_return_ends_no_row(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    text = "label,food,energy_kcal,serving_g,source,source_id\r\npie,Pie,10,100,x,1\r\n"
    file.write_bytes(codecs.BOM_UTF8 + text.encode())
    assert list(read_table(file)) == ["pie"]
    file.write_bytes(text.replace("Pie", '"Apple\rpie"').encode())
    assert read_table(file)["pie"]["food"] == "Apple\rpie"


PIP_TEXT = "numpy==2.0.0\n# naïve\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_requirements_are_read_as_pip_reads_them(encoding: str) -> None:
    assert requirements_text(PIP_TEXT.encode(encoding)) == PIP_TEXT
    assert codes(lint_with({"requirements.txt": PIP_TEXT.encode(encoding)})) == []


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_requirements_of_either_order_are_read_by_their_mark(encoding: str) -> None:
    assert requirements_text(f"\ufeff{PIP_TEXT}".encode(encoding)) == PIP_TEXT


def test_requirements_may_name_their_encoding() -> None:
    text = f"# -*- coding: latin-1 -*-\n{PIP_TEXT}"
    assert requirements_text(text.encode("latin-1")) == text
    assert requirements_text(f"# one\n{text}".encode("latin-1")) == f"# one\n{text}"
    assert requirements_text(f"# one\n# two\n{text}".encode("latin-1")) is None
    assert requirements_text(b"# coding: no-such\n") is None


def test_faults_are_found_in_requirements_of_any_encoding() -> None:
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        assert codes(lint_with({"requirements.txt": "torch==2.0\n".encode(encoding)})) == ["M304"]


def test_a_handler_may_have_a_mark() -> None:
    from tests.packaging.lint.trees import HANDLER

    assert codes(lint_with({"handler.py": codecs.BOM_UTF8 + HANDLER.encode()})) == []


def test_texts_to_predict_may_come_through_a_pipe(tmp_path: Path) -> None:
    """As `<(…)` and /dev/stdin name them."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("first\nsecond\n",))
    writer.start()
    assert read_lines(pipe, pipe_too=True) == ["first", "second"]
    writer.join()
    with pytest.raises(OSError, match="not a regular file"):
        read_lines(pipe)
    with pytest.raises(ClientError, match="not a regular file"):
        text_lines(Path("/dev/zero"))


def test_a_file_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marsmith.ground.files.MAX_LINES_BYTES", 10)
    (tmp_path / "texts").write_text("0123456789\n")
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_lines(tmp_path / "texts")
