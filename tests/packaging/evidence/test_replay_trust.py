"""`marsmith test` runs code of an archive: what is not trusted is refused before, what was verified is what runs."""

from pathlib import Path

import pytest

from marsmith.errors import GoldenError, SigningError, VerifyError
from marsmith.evidence import replay
from marsmith.evidence.replay import Outcome, in_worker
from marsmith.mar.keys import keygen
from marsmith.mar.members import GOLDEN
from marsmith.mar.signing import sign
from marsmith.mar.writer import write_archive
from tests.packaging.forgery import content, members, write_sound


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    write_sound(tmp_path / "m.mar")
    return tmp_path / "m.mar"


def test_nothing_of_an_archive_that_is_not_signed_with_the_key_is_run(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "Worker", lambda *_: pytest.fail("its code was run"))
    right, other = keygen(tmp_path / "right.pem"), keygen(tmp_path / "other.pem")
    with pytest.raises(VerifyError, match=f"{archive} is not to be trusted: it is not signed"):
        in_worker(archive, right)
    sign(archive, tmp_path / "right.pem")
    with pytest.raises(VerifyError, match="not made with the key that you trust"):
        in_worker(archive, other, require_signature=True)
    with pytest.raises(SigningError, match="name it with --key"):
        in_worker(archive, require_signature=True)


def test_what_is_run_is_a_copy_that_nobody_replaces(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = archive.read_bytes()

    def run(copy: Path) -> list[Outcome]:
        assert copy != archive
        archive.write_bytes(b"replaced")
        assert copy.read_bytes() == sound
        assert copy.parent.stat().st_mode & 0o077 == 0
        return []

    monkeypatch.setattr(replay, "of_verified", run)
    assert in_worker(archive) == []


def test_an_error_speaks_of_the_archive_and_not_of_its_copy(tmp_path: Path) -> None:
    write_archive(tmp_path / "m.mar", members(content() | {GOLDEN: b"[]"}))
    with pytest.raises(GoldenError, match=f"of {tmp_path / 'm.mar'} is not readable"):
        in_worker(tmp_path / "m.mar")
