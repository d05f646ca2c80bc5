"""Archives of Marsmith and of the stock archiver."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from marsmith.builder import Built
from marsmith.lint import lint_archive
from tests.packaging.lint.trees import CONFIG, HANDLER, codes


def test_what_marsmith_builds_has_no_error(sentiment_archive: Built, food_archive: Built) -> None:
    for archive in (sentiment_archive, food_archive):
        assert [one for one in lint_archive(archive.path) if one.severity == "error"] == []


def stock(tmp_path: Path, *arguments: str) -> Path:
    """An archive that torch-model-archiver made."""
    command = [sys.executable, "-m", "model_archiver.model_packaging", "--model-name", "mine", "--version", "1.0"]
    subprocess.run([*command, *arguments], check=True, capture_output=True, cwd=tmp_path)
    return tmp_path / "mine.mar"


def test_a_sound_archive_of_the_stock_archiver_has_no_finding(tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text(HANDLER)
    (tmp_path / "model-config.yaml").write_text(json.dumps(CONFIG))
    assert lint_archive(stock(tmp_path, "--handler", "handler.py", "--config-file", "model-config.yaml")) == []


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("handler.py", "def handle(data, context)\n", ["M103", "M201"]),
        ("torch.py", HANDLER, ["M108", "M201"]),
        ("a.b.py", HANDLER, ["M102", "M201"]),
        ("handler.py", f"class Other:\n    pass\n{HANDLER}", ["M105", "M201"]),
    ],
)
def test_what_the_stock_archiver_lets_through_is_found(
    tmp_path: Path, file: str, text: str, expected: list[str]
) -> None:
    """Each of these is packed without a word and fails in the worker; pytorch/serve#1260 is the last one."""
    (tmp_path / file).write_text(text)
    assert codes(lint_archive(stock(tmp_path, "--handler", file))) == expected
