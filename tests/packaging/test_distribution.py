"""What pip installs: one package, with the handlers and the configuration as data, and nothing called `handlers`."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (path,) = out.iterdir()
    return path


def test_the_wheel_holds_exactly_the_package_and_its_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as zip_file:
        names = {name for name in zip_file.namelist() if ".dist-info/" not in name}
    package = ROOT / "packaging/marsmith"
    expected = {
        f"marsmith/{file.relative_to(package)}"
        for file in package.rglob("*")
        if file.suffix in {".py", ".xml", ".yaml"} or file.name == "py.typed"
    }
    expected |= {f"marsmith/_data/{file.relative_to(ROOT)}" for file in (ROOT / "handlers").rglob("*.py")}
    data = ("config.properties", "Dockerfile.arm64", "requirements-arm64.lock")
    assert names == expected | {f"marsmith/_data/{name}" for name in data}


def test_an_installed_marsmith_finds_its_data(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as zip_file:
        zip_file.extractall(tmp_path)
    code = (
        "import marsmith.torchserve.configuration as c, marsmith.resources as r; print(r.__file__); "
        "print((r.handlers_tree() / 'base.py').is_file(), r.config_properties().is_file(), c.METRICS.is_file(), "
        "r.dockerfile().is_file(), r.image_lock().is_file(), r.checkout() is None)"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    where, found = result.stdout.splitlines()
    assert Path(where).is_relative_to(tmp_path)
    assert found == "True True True True True True"
