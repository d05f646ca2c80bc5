"""What is no regular file is refused by whatever reads a file, before it blocks or fills the memory."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from marsmith import lint
from marsmith.cli.explaining import explain
from marsmith.deploy.settings import read_table
from marsmith.diff import diff
from marsmith.errors import MarsmithError
from marsmith.evidence.replay import in_worker
from marsmith.ground.files import open_regular, read_regular
from marsmith.inspection import inspect
from marsmith.mar.keys import keygen
from marsmith.mar.members import DIGESTS, MANIFEST, SIGNATURE
from marsmith.mar.signing import sign
from marsmith.mar.verify import verify
from marsmith.recipe.recipe import Recipe
from marsmith.rest.client import Client
from marsmith.torchserve.store import fill
from tests.packaging.forgery import check, rewritten, unpacked, write_sound

READERS: dict[str, Callable[[Path], object]] = {
    "verify": verify,
    "lint": lint.lint_archive,
    "inspect": inspect,
    "diff": lambda path: diff(path, path),
    "test": in_worker,
    "serve": lambda path: fill(path.parent, [path]) if path.parent != Path("/dev") else fill(Path("/tmp"), [path]),
    "sign": lambda path: sign(path, KEY[0]),
    "build": Recipe.load,
    "deploy": read_table,
    "explain": lambda path: explain("m", path, "http://127.0.0.1:9", {}),
}
KEY: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def key(tmp_path_factory: pytest.TempPathFactory) -> None:
    KEY[:] = [tmp_path_factory.mktemp("key") / "key.pem"]
    keygen(KEY[0])


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("kind", ["device", "link to a device", "pipe"])
def test_no_command_reads_what_is_no_regular_file(tmp_path: Path, command: str, kind: str) -> None:
    path = tmp_path / "m.mar"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    else:
        path = Path("/dev/zero")
    with pytest.raises(MarsmithError, match="not a regular file"):
        READERS[command](path)


def test_an_image_that_is_none_fails_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    (answer,) = Client("http://127.0.0.1:9").predict_many("m", [tmp_path / "a.png"])
    assert "not a regular file" in answer.message


def test_what_was_replaced_after_it_was_looked_at_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    seen = (tmp_path / "file").stat()
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(Path, "stat", lambda self: seen)
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(tmp_path / "pipe")


def test_a_file_is_read_no_further_than_its_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_regular(tmp_path / "file", 4)


@pytest.mark.parametrize("name", [SIGNATURE, DIGESTS, MANIFEST])
def test_a_file_of_verification_over_its_limit_does_not_pass_for_missing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signature padded past the limit made an archive pass for unsigned."""
    monkeypatch.setitem(__import__("marsmith.mar.proof", fromlist=["KEPT"]).KEPT, name, 4000)
    files = dict(unpacked(write_sound(tmp_path / "m.mar"))) | {name: b" " * 4001}
    for kept in (files, {other: data for other, data in files.items() if other != DIGESTS or other == name}):
        report = check(rewritten(list(kept.items())), tmp_path / "m.mar")
        assert ("limit", name) in [(one.kind, one.member) for one in report.problems]
        assert report.signature in (("bad",) if name == SIGNATURE else ("none",))
