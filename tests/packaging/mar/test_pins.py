"""What a user pins: not older than a version, and one file's digest. A signature says who, not when."""

import hashlib
import json
from pathlib import Path

import pytest

from marsmith.errors import VerifyError
from marsmith.mar.members import MANIFEST
from marsmith.mar.proof import Pins
from marsmith.mar.verify import verify
from marsmith.mar.writer import write_archive
from tests.packaging.forgery import content, members


def archive(path: Path, version: object) -> Path:
    manifest = {"model": {"modelName": "m", "handler": "m.py", "modelVersion": version}, "marsmith": {}}
    write_archive(path, members(content() | {MANIFEST: json.dumps(manifest).encode()}))
    return path


@pytest.mark.parametrize(
    ("version", "minimum"), [("1.0", "1.0"), ("1.10", "1.9"), ("2.0.0", "2"), ("1.0.post1", "1.0"), ("2.0", "2.0rc1")]
)
def test_a_version_that_is_not_older_passes(tmp_path: Path, version: str, minimum: str) -> None:
    assert verify(archive(tmp_path / "m.mar", version), pins=Pins(minimum)).ok


@pytest.mark.parametrize(("version", "minimum"), [("1.9", "1.10"), ("1.0", "1.0.1"), ("2.0rc1", "2.0")])
def test_an_older_version_is_refused(tmp_path: Path, version: str, minimum: str) -> None:
    (problem,) = verify(archive(tmp_path / "m.mar", version), pins=Pins(minimum)).problems
    assert (problem.kind, problem.message) == ("pin", f"its version is {version}, older than {minimum}")


@pytest.mark.parametrize("version", ["latest", "", None, {}, "1.0\u001b[2J", "v-next"])
def test_a_version_that_cannot_be_compared_is_refused(tmp_path: Path, version: object) -> None:
    (problem,) = verify(archive(tmp_path / "m.mar", version), pins=Pins("1.0")).problems
    assert problem.kind == "pin"
    assert "cannot be compared with 1.0" in problem.message
    assert "\x1b" not in problem.message


def test_a_digest_is_that_of_the_whole_file(tmp_path: Path) -> None:
    path = archive(tmp_path / "m.mar", "1.0")
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    assert verify(path, pins=Pins(sha256=right)).ok
    assert verify(path, pins=Pins(sha256=f" {right.upper()}\n")).ok
    (problem,) = verify(path, pins=Pins(sha256="0" * 64)).problems
    assert (problem.kind, right in problem.message) == ("pin", True)


@pytest.mark.parametrize("sha256", ["", "abc", "g" * 64, "0" * 63, "0" * 65])
def test_a_digest_that_is_none_is_refused_before_anything_is_read(sha256: str) -> None:
    with pytest.raises(VerifyError, match="not 64 hexadecimal digits"):
        Pins(sha256=sha256)


@pytest.mark.parametrize("minimum", ["", "latest", "1..2"])
def test_a_minimum_that_is_none_is_refused(minimum: str) -> None:
    with pytest.raises(VerifyError, match="cannot be compared"):
        Pins(minimum)
