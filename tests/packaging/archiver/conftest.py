"""Files to pack, in a directory of their own that is the current one."""

import tempfile
from pathlib import Path

import pytest

from tests.packaging.archiver.packing import HANDLER, write


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that holds a handler, and a directory for temporary files that must stay empty."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    directory = tmp_path / "work"
    write(directory / "handler.py", HANDLER)
    monkeypatch.chdir(directory)
    return directory
