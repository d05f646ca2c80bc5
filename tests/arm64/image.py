"""Build the image of Dockerfile.arm64, from the cache's base image and wheels that the host downloads."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.arm64.tools import BASE_IMAGE, CACHE, IMAGE, ROOT, buildah

LOCK = ROOT / "packaging/requirements-arm64.lock"
# Debian 12 has glibc 2.36: every older manylinux runs on it.
GLIBC_MINORS = range(17, 37)
PYTHON = "3.11"


def wheels() -> Path:
    """The directory of the lock's wheels, downloaded once for each lock.

    Without --no-deps pip would choose dependencies by the markers of this machine, and fetch gigabytes.
    """
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    directory = CACHE / f"wheels-{digest}"
    if directory.is_dir():
        return directory
    for old in CACHE.glob("wheels-*"):
        shutil.rmtree(old)
    part = CACHE / "wheels-part"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(part), "--requirement", str(LOCK)]
    command += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--implementation", "cp"]
    command += ["--python-version", PYTHON, "--abi", f"cp{PYTHON.replace('.', '')}", "--abi", "abi3", "--abi", "none"]
    for minor in GLIBC_MINORS:
        command += ["--platform", f"manylinux_2_{minor}_aarch64"]
    subprocess.run(command, check=True)
    return part.rename(directory)


def lay_context(context: Path, store: Path) -> None:
    """Everything that the Dockerfile copies, and nothing else."""
    shutil.copy(ROOT / "Dockerfile.arm64", context)
    shutil.copy(ROOT / "config.properties", context)
    shutil.copy(LOCK, context)
    shutil.copytree(
        ROOT / "packaging/marsmith", context / "packaging/marsmith", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(wheels(), context / "wheels")
    shutil.copytree(store, context / "model-store")


def build_image(context: Path) -> None:
    """Build IMAGE from nothing: a cached layer would not notice that what it had mounted has changed.

    In the docker format, because the OCI format has no health check.
    """
    command: list[str | Path] = ["build", "--isolation", "chroot", "--platform", "linux/arm64", "--pull-never"]
    command += ["--no-cache", "--format", "docker", "--tag", IMAGE, "--file", context / "Dockerfile.arm64"]
    for argument in (f"BASE_IMAGE={BASE_IMAGE}", f"LOCK={LOCK.name}", "PIP_NO_INDEX=1"):
        command += ["--build-arg", argument]
    buildah(*command, context)


def configuration() -> dict[str, Any]:
    """What the image says of itself, as Docker names it."""
    said: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", IMAGE))["Docker"]
    return said


def size() -> str:
    """The image's size unpacked, in buildah's words."""
    (image,) = json.loads(buildah("images", "--json", IMAGE))
    return str(image["size"])
