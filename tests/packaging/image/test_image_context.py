"""The build context: what is in it, with one time and one mode, and nothing that is not to be trusted."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from marsmith.builder import Built
from marsmith.errors import ArchiveError, ImageError, SigningError, VerifyError
from marsmith.image.context import write_context

PACKAGE = Path(__file__).parents[3] / "packaging/marsmith"
EPOCH = 1_000_000_000


@pytest.fixture
def context(tmp_path: Path) -> Path:
    directory = tmp_path / "context"
    directory.mkdir()
    return directory


def test_the_context_holds_exactly_what_the_dockerfile_copies(papers: Path, context: Path) -> None:
    assert write_context(context, [], epoch=EPOCH) == []
    top = {path.name for path in context.iterdir()}
    expected = {
        "Dockerfile.arm64",
        "config.properties",
        "model-store",
        "packaging",
        "wheels",
    }
    assert top == expected
    assert (context / "packaging/requirements-arm64.lock").read_bytes() == (papers / "lock").read_bytes()
    package = context / "packaging/marsmith"
    modules = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")}
    assert {path.relative_to(package) for path in package.rglob("*.py")} == modules
    assert not [path for path in package.rglob("*") if path.name in ("__pycache__", "_data") or path.suffix == ".pyc"]
    assert (package / "torchserve" / "log4j2.xml").is_file()


def test_archives_have_their_models_names(
    papers: Path, context: Path, sentiment_archive: Built, tmp_path: Path
) -> None:
    renamed = Path(shutil.copy(sentiment_archive.path, tmp_path / "release-7.mar"))
    assert write_context(context, [renamed], epoch=EPOCH) == ["sentiment"]
    assert [path.name for path in (context / "model-store").iterdir()] == ["sentiment.mar"]
    assert (context / "model-store/sentiment.mar").read_bytes() == renamed.read_bytes()


def test_two_contexts_are_alike_whatever_the_clock_and_the_umask(
    papers: Path, tmp_path: Path, sentiment_archive: Built
) -> None:
    def rows(name: str, umask: int) -> list[tuple[str, int, float]]:
        directory = tmp_path / name
        before = os.umask(umask)
        try:
            directory.mkdir()
            write_context(directory, [sentiment_archive.path], epoch=EPOCH)
        finally:
            os.umask(before)
        found = [directory, *sorted(directory.rglob("*"))]
        stats = [(path, path.stat()) for path in found]
        return [(str(path.relative_to(directory)), one.st_mode, one.st_mtime) for path, one in stats]

    one, other = rows("one", 0o022), rows("other", 0o077)
    assert one == other
    assert {mtime for _, _, mtime in one} == {EPOCH}
    assert {stat.S_IMODE(mode) for _, mode, _ in one} == {0o644, 0o755}


def test_wheels_keep_their_own_time(papers: Path, context: Path, tmp_path: Path) -> None:
    wheels = tmp_path / "downloads"
    wheels.mkdir()
    (wheels / "a-1-py3-none-any.whl").write_bytes(b"a")
    (wheels / "notes.txt").write_bytes(b"b")
    os.utime(wheels / "a-1-py3-none-any.whl", (5, 5))
    write_context(context, [], epoch=EPOCH, wheels=wheels)
    assert [path.name for path in (context / "wheels").iterdir()] == ["a-1-py3-none-any.whl"]
    assert (wheels / "a-1-py3-none-any.whl").stat().st_mtime == 5


def test_a_directory_without_wheels_is_refused(papers: Path, context: Path, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="There are no wheels in"):
        write_context(context, [], epoch=EPOCH, wheels=tmp_path)


def test_a_lock_file_of_the_users_own(papers: Path, context: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("numpy==2.2.0\n")
    write_context(context, [], epoch=EPOCH, lock=tmp_path / "mine.txt")
    assert (context / "packaging/requirements-arm64.lock").read_text() == "numpy==2.2.0\n"
    shutil.rmtree(context)
    context.mkdir()
    with pytest.raises(ImageError, match=r"There is no .*missing\.txt, which the image is built from: name yours with"):
        write_context(context, [], epoch=EPOCH, lock=tmp_path / "missing.txt")


def test_an_archive_that_is_not_to_be_trusted_is_refused(
    papers: Path, context: Path, tmp_path: Path, sentiment_archive: Built
) -> None:
    bad = tmp_path / "bad.mar"
    bad.write_bytes(sentiment_archive.path.read_bytes() + b"more")
    with pytest.raises(VerifyError, match=r"bad\.mar is not to be trusted"):
        write_context(context, [bad], epoch=EPOCH)


def test_signatures_are_asked_for(papers: Path, context: Path, sentiment_archive: Built) -> None:
    with pytest.raises(SigningError, match="name it with --key"):
        write_context(context, [sentiment_archive.path], epoch=EPOCH, require_signature=True)


def test_missing_archives_and_two_of_one_name_are_refused(
    papers: Path, context: Path, tmp_path: Path, sentiment_archive: Built
) -> None:
    with pytest.raises(ArchiveError, match="Two of the archives hold a model of one name"):
        write_context(context, [sentiment_archive.path, sentiment_archive.path], epoch=EPOCH)
    shutil.rmtree(context)
    context.mkdir()
    with pytest.raises(ArchiveError, match="There is no archive"):
        write_context(context, [tmp_path / "missing.mar"], epoch=EPOCH)
