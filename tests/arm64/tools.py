"""What .ci/arm64-tools installs, and how it is called."""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci/arm64-tools"
CACHE = Path(os.environ.get("MARSMITH_ARM64_CACHE") or Path.home() / ".cache/marsmith-arm64")
QEMU = CACHE / "qemu/usr/bin/qemu-aarch64"
BASE_IMAGE = "localhost/marsmith-arm64-base"
# What the tests' own image is called, and what the names of their containers begin with.
NAME = "marsmith-arm64-test"
IMAGE = f"localhost/{NAME}"
NOT_THERE = 3
BUILD_TIMEOUT_S = 1500


def missing() -> str | None:
    """Why the image cannot be built and run here; None where it can."""
    if not SCRIPT.is_file():
        return f"{SCRIPT.name} is in a checkout only"
    checked = subprocess.run([SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode in (0, NOT_THERE), checked.stderr
    return checked.stderr.strip() or None


@contextmanager
def alone() -> Iterator[None]:
    """While no other process runs these tests; what one that was killed left behind is removed."""
    with (CACHE / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stale := buildah("containers", "--quiet", "--filter", f"name={NAME}").split():
            buildah("rm", *stale)
        if buildah("images", "--quiet", "--filter", f"reference={IMAGE}"):
            buildah("rmi", "--force", IMAGE)
        yield


def environment() -> dict[str, str]:
    """The environment in which buildah finds the cache's images, and no others."""
    return {**os.environ, "CONTAINERS_STORAGE_CONF": str(CACHE / "storage.conf")}


def buildah(*arguments: str | Path) -> str:
    """What buildah says. Fails with its last words."""
    done = subprocess.run(
        ["buildah", *map(str, arguments)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"buildah {arguments[0]}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout.strip()
