"""What Dockerfile.arm64 makes: an image that says how it is run, by whom, and when it is healthy."""

import pytest

from tests.arm64.image import configuration
from tests.arm64.tools import IMAGE, buildah

pytestmark = [pytest.mark.arm64, pytest.mark.timeout(2400), pytest.mark.usefixtures("image")]


def test_it_is_for_arm64() -> None:
    said = configuration()
    assert (said["os"], said["architecture"]) == ("linux", "arm64")


def test_it_runs_as_nobody_in_particular() -> None:
    assert configuration()["config"]["User"].split(":")[0] == "10001"


def test_it_says_when_it_is_healthy() -> None:
    test = configuration()["config"]["Healthcheck"]["Test"]
    assert test == ["CMD", "/opt/marsmith/bin/python", "-P", "-m", "marsmith.container.health"]


def test_torch_and_transformers_stay_outside() -> None:
    """They would be four fifths of it, and nothing that serves imports them."""
    container = buildah("from", "--pull-never", IMAGE)
    try:
        names = buildah(
            "run", "--isolation", "chroot", container, "--", "ls", "/opt/marsmith/lib/python3.11/site-packages"
        )
    finally:
        buildah("rm", container)
    assert {"onnxruntime", "ts"} <= set(names.split())
    assert {"torch", "transformers"}.isdisjoint(names.split())
