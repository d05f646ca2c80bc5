"""The ARM64 image, built once, and run once on each emulated CPU."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from marsmith.ground.serving import Precision
from tests.arm64 import comparison
from tests.arm64.archives import Archive, archives
from tests.arm64.comparison import Comparison
from tests.arm64.drive import BAKED, MOUNTED, Run
from tests.arm64.emulation import CPUS, Emulation
from tests.arm64.image import build_image, lay_context, size
from tests.arm64.tools import IMAGE, ROOT, alone, buildah, missing
from tests.figures import FIGURES

# bf16 on its own, so that archives are mounted too.
BAKED_IN: tuple[Precision, ...] = ("fp32", "int8")
REPORT = "MARSMITH_ARM64_JSON"
# Of one container, for each of the seconds that its workers may take.
RUN_PATIENCE = 4


@pytest.fixture(scope="session")
def tools() -> Iterator[None]:
    if reason := missing():
        pytest.skip(f"THE ARM64 IMAGE IS NOT TESTED: {reason}")
    with alone():
        yield


@pytest.fixture(scope="session")
def directory(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the archives lie, in a directory for each precision, and `baked`: those that the image holds."""
    return tmp_path_factory.mktemp("arm64")


@pytest.fixture(scope="session")
def emulation(directory: Path, request: pytest.FixtureRequest) -> Emulation:
    """How fast the emulated CPUs are here."""
    scratch = directory / "emulation"
    scratch.mkdir()
    measured = Emulation.measure(scratch)
    rates = [f"{cpu} {one} {rate / 1e6:.1f}" for (cpu, one), rate in measured.rates.items()]
    request.config.stash[FIGURES].append(("emulated products, in millions a second", ", ".join(rates)))
    return measured


@pytest.fixture(scope="session")
def built(directory: Path, emulation: Emulation) -> dict[str, Archive]:
    """The archives by name."""
    found = {one.name: one for one in archives(directory, emulation)}
    (directory / BAKED).mkdir()
    for one in found.values():
        if one.precision in BAKED_IN:
            shutil.copy(one.path, directory / BAKED)
    return found


@pytest.fixture(scope="session")
def image(built: dict[str, Archive], directory: Path) -> Iterator[None]:
    context = directory / "context"
    context.mkdir()
    lay_context(context, directory / BAKED)
    build_image(context)
    yield
    buildah("rmi", IMAGE)


@pytest.fixture(scope="session")
def runs(image: None, directory: Path, emulation: Emulation) -> list[Run]:
    """What the containers did: on each CPU one with the archives of the image, and one with others mounted."""
    stores = {BAKED: directory / BAKED, MOUNTED: directory / "bf16"}
    timeout_s = emulation.timeout_s
    return [run_on(cpu, way, store, directory, timeout_s) for cpu in CPUS for way, store in stores.items()]


def run_on(cpu: str, way: str, store: Path, directory: Path, timeout_s: int) -> Run:
    log, result = (directory / f"{cpu}-{way}.{suffix}" for suffix in ("log", "json"))
    command = ["unshare", "--net", sys.executable, "-m", "tests.arm64.drive", cpu, way]
    command += map(str, (timeout_s, store, log, result))
    subprocess.run(command, cwd=ROOT, check=True, timeout=RUN_PATIENCE * timeout_s)
    return Run(**json.loads(result.read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def comparisons(built: dict[str, Archive], runs: list[Run], request: pytest.FixtureRequest) -> list[Comparison]:
    """Every archive on every CPU; shown at the end of the tests, and stored where MARSMITH_ARM64_JSON says."""
    found = [comparison.compare(archive, runs, cpu) for archive in built.values() for cpu in CPUS]
    console = Console(width=120)
    with console.capture() as shown:
        console.print(comparison.table(found))
    request.config.stash[FIGURES].append(("ARM64 image, emulated, beside x86-64", shown.get()))
    if file := os.environ.get(REPORT):
        comparison.write(Path(file), found, runs, size())
    return found
