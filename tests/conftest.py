"""What all tests need of their own process, and how `pytest -n` shares them among several."""

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# A shell lets what it runs in the background ignore a terminal's signals, which children inherit; some tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

# All of it needs the machine's one image of the container.
ARM64 = "tests/arm64/"


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """A file's tests run in one process, which makes its fixtures once; so do all of tests/arm64."""

    def _split_scope(self, nodeid: str) -> str:
        return ARM64 if nodeid.startswith(ARM64) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Share the tests by file, in the order of the folders: tests/arm64 takes longest, so it begins first."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """Sockets in it have paths that the system takes; pytest's own directories may be too deep."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)
