"""How the tests of `marsmith archive` pack, and look at what was packed."""

import json
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from marsmith.archiver import Archived, archive
from marsmith.cli.archiver import COMMAND
from marsmith.cli.archiver import archive as command
from marsmith.errors import ArchiveError, LintError
from marsmith.mar.members import DIGESTS, MANIFEST

APP = typer.Typer(add_completion=False)
APP.command(**COMMAND)(command)
HANDLER = "def handle(data, context):\n    return data\n"
FORMATS = ("default", "zip-store", "tgz", "no-archive")
ENDINGS = {"default": "m.mar", "zip-store": "m.mar", "tgz": "m.tar.gz", "no-archive": "m"}
MIB = 1 << 20


def run_command(*arguments: str) -> Result:
    """Run `marsmith archive` with these arguments."""
    return CliRunner().invoke(APP, list(arguments))


def contents(path: Path) -> dict[str, bytes]:
    """The members of an archive of any format, in its order, without the root directory of a .tar.gz."""
    if path.is_dir():
        return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    if path.suffix == ".mar":
        with zipfile.ZipFile(path) as zip_file:
            names = zip_file.namelist()
            assert len(names) == len(set(names))
            return {name: zip_file.read(name) for name in names}
    root = path.name.removesuffix(".tar.gz") + "/"
    found = {}
    with tarfile.open(path) as tar:
        for entry in tar:
            reader = tar.extractfile(entry)
            assert reader is not None
            assert entry.name.startswith(root)
            found[entry.name.removeprefix(root)] = reader.read()
    return found


def names(path: Path) -> set[str]:
    """The members that are not the archiver's own."""
    return contents(path).keys() - {MANIFEST, DIGESTS}


def manifest(path: Path) -> dict[str, Any]:
    value = json.loads(contents(path)[MANIFEST])
    assert isinstance(value, dict)
    return value


def write(path: Path, content: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def pack(**flags: Any) -> Archived:
    return archive(**{"model_name": "m", "handler": "handler.py", "version": "1.0", **flags})


def refused(**flags: Any) -> str:
    """The one sentence of what is refused; nothing was written."""
    before = sorted(Path().rglob("*"))
    with pytest.raises((ArchiveError, LintError)) as caught:
        pack(**flags)
    assert sorted(Path().rglob("*")) == before
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence
