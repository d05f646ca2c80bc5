"""What `import marsmith` gives, and what it costs."""

import subprocess
import sys
from pathlib import Path

import pytest

import marsmith
from marsmith.errors import ArchiveError, MarsmithError
from tests.tiny import sentiment_checkpoint, write_recipe


def test_the_public_names_are_these() -> None:
    assert marsmith.__all__ == ["MarsmithError", "archive", "build"]
    assert all(hasattr(marsmith, name) for name in marsmith.__all__)
    assert not hasattr(marsmith, "no_such_name")
    assert issubclass(ArchiveError, marsmith.MarsmithError)
    assert marsmith.MarsmithError is MarsmithError


def test_importing_it_is_cheap() -> None:
    code = "import sys, marsmith; print(sorted({'torch', 'transformers', 'onnx', 'pydantic'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.build
def test_build_and_archive_are_the_commands(tmp_path: Path) -> None:
    built = marsmith.build(write_recipe(sentiment_checkpoint(tmp_path), name="tiny"), tmp_path / "store")
    assert built.path == tmp_path / "store/tiny.mar"
    handler = tmp_path / "echo.py"
    handler.write_text("def handle(data, context):\n    return data and [b'ok'] * len(data)\n")
    archived = marsmith.archive(model_name="echo", version="1.0", handler=str(handler), export_path=tmp_path / "store")
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == ["echo.mar", "tiny.mar"]
    assert archived.path == tmp_path / "store/echo.mar"
