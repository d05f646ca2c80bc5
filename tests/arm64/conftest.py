"""The ARM64 image, built once, and run once on each emulated CPU."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from tests.arm64 import comparison
from tests.arm64.archives import Archive, archives
from tests.arm64.comparison import Comparison
from tests.arm64.drive import Run
from tests.arm64.image import build_image, lay_context, size
from tests.arm64.tools import ROOT, alone, buildah, missing

# Graviton3 has products of bf16, Graviton2 has none.
CPUS = ("neoverse-v1", "neoverse-n1")
REPORT = "MARSMITH_ARM64_JSON"
RUN_TIMEOUT_S = 1200

COMPARISONS = pytest.StashKey[list[Comparison]]()


@pytest.fixture(scope="session")
def tools() -> Iterator[None]:
    if reason := missing():
        pytest.skip(f"THE ARM64 IMAGE IS NOT TESTED: {reason}")
    with alone():
        yield


@pytest.fixture(scope="session")
def store(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("arm64") / "model-store"
    directory.mkdir()
    return directory


@pytest.fixture(scope="session")
def built(store: Path) -> dict[str, Archive]:
    """The archives by name, before the image that holds them."""
    return {one.name: one for one in archives(store)}


@pytest.fixture(scope="session")
def image(built: dict[str, Archive], store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    context = tmp_path_factory.mktemp("context")
    lay_context(context, store)
    build_image(context)
    yield
    buildah("rmi", "--prune", "--force")


@pytest.fixture(scope="session")
def runs(image: None, store: Path) -> dict[str, Run]:
    """What the container did, by CPU."""
    return {cpu: run_on(cpu, store) for cpu in CPUS}


def run_on(cpu: str, store: Path) -> Run:
    log, result = (store.with_name(f"{cpu}.{suffix}") for suffix in ("log", "json"))
    command = ["unshare", "--net", sys.executable, "-m", "tests.arm64.drive", cpu, *map(str, (store, log, result))]
    subprocess.run(command, cwd=ROOT, check=True, timeout=RUN_TIMEOUT_S)
    return Run(**json.loads(result.read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def comparisons(built: dict[str, Archive], runs: dict[str, Run], request: pytest.FixtureRequest) -> list[Comparison]:
    """Every archive on every CPU; shown at the end of the tests, and stored where MARSMITH_ARM64_JSON says."""
    found = [comparison.compare(archive, run) for archive in built.values() for run in runs.values()]
    request.config.stash[COMPARISONS] = found
    if file := os.environ.get(REPORT):
        comparison.write(Path(file), found, list(runs.values()), size())
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the table whether tests pass or fail."""
    if found := config.stash.get(COMPARISONS, None):
        terminalreporter.section("ARM64 image, emulated, beside x86-64")
        console = Console(file=terminalreporter._tw._file, width=120)
        console.print(comparison.table(found))
