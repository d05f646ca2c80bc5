"""Inputs that are not there or cannot be read are one sentence, and nothing is written."""

import os
from pathlib import Path
from typing import Any

import pytest

from marsmith.errors import ArchiveError
from tests.packaging.archiver.packing import ENDINGS, FORMATS, pack, refused, write


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"handler": "nowhere.py"}, "There is no handler nowhere.py"),
        ({"handler": "nowhere"}, "There is no handler nowhere.py"),
        ({"handler": "nowhere.py:handle"}, "There is no handler nowhere.py"),
        ({"handler": ""}, "There is no handler .py"),
        ({"handler": "lib.so", "runtime": "LSP"}, "There is no handler lib.so.so"),
        ({"serialized_file": "nowhere.pt"}, "There is no serialized file nowhere.pt"),
        ({"model_file": Path("nowhere.py")}, "There is no model file nowhere.py"),
        ({"requirements_file": "nowhere.txt"}, "There is no requirements file nowhere.txt"),
        ({"config_file": "nowhere.yaml"}, "There is no config file nowhere.yaml"),
        ({"extra_files": "handler.py,nowhere"}, "There is no extra file nowhere"),
        ({"extra_files": "*.txt"}, "The pattern *.txt matches no file"),
        ({"extra_files": "*.pyc"}, "never packed, like cached.pyc"),
        ({"extra_files": [""]}, "no extra file"),
        ({"extra_files": "pipe"}, "pipe is neither a file nor a directory"),
        ({"extra_files": "directory"}, "directory/pipe is neither a file nor a directory"),
        ({"serialized_file": "directory"}, "The serialized file directory is a directory"),
        ({"model_name": "../m"}, "The model name '../m' cannot be"),
        ({"model_name": ""}, "The model name '' cannot be"),
        ({"model_name": "m\n"}, "The model name 'm\\n' cannot be"),
        ({"model_name": "a/b"}, "The model name 'a/b' cannot be"),
        ({"runtime": "java"}, "There is no runtime 'java'"),
        ({"archive_format": "rar"}, "There is no archive format 'rar'"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(here: Path, flags: dict[str, Any], says: str) -> None:
    """pytorch/serve#1012: a failure leaves nothing behind."""
    write(here / "cached.pyc")
    (here / "directory").mkdir()
    os.mkfifo(here / "pipe")
    os.mkfifo(here / "directory/pipe")
    assert says in refused(**{"export_path": "store", **flags})


@pytest.mark.parametrize("archive_format", FORMATS)
def test_a_file_name_that_is_not_utf8_is_refused(here: Path, archive_format: str) -> None:
    (here / "extra").mkdir()
    Path(os.fsdecode(os.fsencode(here) + b"/extra/na\xefve.txt")).write_text("")
    assert "extra/na\\udcefve.txt' is not UTF-8" in refused(extra_files="extra", archive_format=archive_format)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
@pytest.mark.parametrize("archive_format", FORMATS)
def test_what_the_user_may_not_read_or_write_is_one_sentence(here: Path, archive_format: str) -> None:
    write(here / "model.pt").chmod(0)
    assert "model.pt cannot be read" in refused(serialized_file="model.pt", archive_format=archive_format)
    (here / "store").mkdir(mode=0o500)
    sentence = refused(export_path="store", archive_format=archive_format)
    assert f"store/{ENDINGS[archive_format]} cannot be written: Permission denied" in sentence


def test_a_directory_that_cannot_be_listed_is_one_sentence(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "extra").mkdir()

    def denied(directory: Path) -> None:
        raise PermissionError(13, "Permission denied", str(directory))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", denied)
        with pytest.raises(ArchiveError, match=r"^extra cannot be read: Permission denied\.$"):
            pack(extra_files="extra")


@pytest.mark.parametrize("archive_format", FORMATS)
def test_an_export_path_that_cannot_be_written_is_one_sentence(here: Path, archive_format: str) -> None:
    assert f"/proc/store/{ENDINGS[archive_format]} cannot be written" in refused(
        export_path="/proc/store", archive_format=archive_format
    )
    assert "cannot be written" in refused(export_path="handler.py", archive_format=archive_format)
