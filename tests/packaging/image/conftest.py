"""Fake tools, alone on PATH, and a Dockerfile and lock file of the test's own."""

import shutil
import subprocess
from pathlib import Path

import pytest

from marsmith.image import context
from tests.packaging.image.fake_tools import FakeTools
from tests.packaging.image.images import LOCK


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTools:
    directory = tmp_path / "path"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    for name in ("SOURCE_DATE_EPOCH", "STORAGE_DRIVER", "CONTAINERS_STORAGE_CONF", "BUILDAH_ISOLATION"):
        monkeypatch.delenv(name, raising=False)
    return FakeTools(directory)


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a small Dockerfile and lock file that stand in for Marsmith's."""
    directory = tmp_path / "papers"
    directory.mkdir()
    (directory / "Dockerfile.arm64").write_text("FROM scratch\n")
    (directory / "lock").write_text(LOCK)
    monkeypatch.setattr(context, "dockerfile", lambda: directory / "Dockerfile.arm64")
    monkeypatch.setattr(context, "image_lock", lambda: directory / "lock")
    return directory


@pytest.fixture
def unshare() -> str:
    """The program that makes namespaces, where the kernel lets this user have them."""
    program = shutil.which("unshare")
    if not program or subprocess.run([program, "--net", "true"], check=False, capture_output=True).returncode:
        pytest.skip("network namespaces take root")
    return program
