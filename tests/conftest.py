"""What all tests need of their own process, and how `pytest -n` shares them among several."""

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.figures import FIGURES
from tests.tiers import BUILDING

# Examples of each property: few while one works, hypothesis's own number with `--hypothesis-profile=ci`. A test that
# states its own number keeps it.
settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile("ci", deadline=None)
settings.load_profile("dev")

# A shell lets what it runs in the background ignore a terminal's signals, which children inherit; some tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

# All of it needs the machine's one image of the container.
ARM64 = "tests/arm64/"


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """A file's tests run in one process, which makes its fixtures once; so do all of tests/arm64."""

    def _split_scope(self, nodeid: str) -> str:
        return ARM64 if nodeid.startswith(ARM64) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Share the tests by file, in the order of the folders: tests/arm64 takes longest, so it begins first."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes a fixture that builds archives into its tier, before `-m` chooses."""
    for item in items:
        if not BUILDING.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("build")


def pytest_configure(config: pytest.Config) -> None:
    """Nothing is measured yet."""
    config.stash[FIGURES] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Of `-n`, a process that runs tests hands its figures to the one that shows them."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["figures"] = session.config.stash[FIGURES]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take them; a process that crashed has none."""
    node.config.stash[FIGURES] += getattr(node, "workeroutput", {}).get("figures", [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show them."""
    for title, text in config.stash[FIGURES]:
        terminalreporter.section(title)
        terminalreporter.write_line(text)


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """Sockets in it have paths that the system takes; pytest's own directories may be too deep."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)
