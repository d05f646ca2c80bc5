"""The packages of an image against its lock file."""

from pathlib import Path

import pytest

from marsmith.errors import ImageError
from marsmith.image.static import check_static
from tests.packaging.image.images import SITE, Files, dist_info, docker_archive, good
from tests.packaging.image.test_image_static import read, results, wrong


def test_versions_that_are_not_the_locked_ones(tmp_path: Path) -> None:
    files: Files = {
        f"{SITE}/.wh.numpy-2.1.0.dist-info": b"",
        f"{SITE}/numpy-2.2.0.dist-info/METADATA": dist_info("numpy", "2.2.0"),
        f"{SITE}/pip-25.0.dist-info/METADATA": dist_info("pip", "25.0"),
        f"{SITE}/marsmith-0.1.0.dist-info/METADATA": dist_info("marsmith", "0.1.0"),
        "usr/lib/python3/dist-packages/six-1.dist-info/METADATA": dist_info("six", "1"),
    }
    found = results(tmp_path, files)
    assert wrong(found) == ["locked versions"]
    assert found["locked versions"].where == ("numpy 2.2.0, locked 2.1.0", "pip 25.0, not locked")


def test_a_locked_package_that_is_missing(tmp_path: Path) -> None:
    found = results(tmp_path, {f"{SITE}/.wh.pillow-12.0.dist-info": b""})
    assert found["locked versions"].where == ("pillow 12.0 is missing",)


def test_one_version_may_be_written_in_two_ways(tmp_path: Path) -> None:
    other = {f"{SITE}/pillow-12.0.dist-info/METADATA": dist_info("pillow", "12.0.0")}
    assert wrong(results(tmp_path, other)) == []


def test_an_image_without_the_environment(tmp_path: Path) -> None:
    found = results(tmp_path, {"opt/.wh.marsmith": b""})
    assert wrong(found) == ["entrypoint", "health check", "locked versions"]
    assert "no Python package is installed" in found["locked versions"].message


def test_markers_are_those_of_the_image_and_not_of_this_machine(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lines = ["numpy==2.1.0", "pillow==12.0 ; platform_machine == 'aarch64'"]
    lines += ["other==1 ; platform_machine == 'x86_64'", "old==1 ; python_version < '3.11'"]
    lock.write_text("\n".join(lines))
    image, tree = read(docker_archive(tmp_path / "image.tar", good()))
    assert next(one.status for one in check_static(image, tree, lock) if one.check == "locked versions") == "ok"


@pytest.mark.parametrize(("text", "message"), [("numpy>=2", "is not pinned"), (None, "cannot be read")])
def test_a_lock_file_that_locks_nothing_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    lock = tmp_path / "lock.txt"
    if text:
        lock.write_text(text)
    image, tree = read(docker_archive(tmp_path / "image.tar", good()))
    with pytest.raises(ImageError, match=message):
        check_static(image, tree, lock)
