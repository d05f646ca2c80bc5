"""The package index, asked by the real pip: a folder of made-up wheels stands for it."""

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from marsmith.lint import index
from marsmith.lint.index import lint_index
from tests.packaging.lint.trees import codes, only

WHEELS = {
    "pip": "pip-1.0-py3-none-any.whl",
    "pure": "pure-1.0-py3-none-any.whl",
    "arm": "arm-2.0-cp38-abi3-manylinux_2_28_aarch64.whl",
    "old-arm": "old_arm-2.0-cp38-abi3-manylinux2014_aarch64.whl",
    "intel": "intel-3.0-cp38-abi3-manylinux_2_28_x86_64.whl",
}


@pytest.fixture(autouse=True)
def no_other_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for variable in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def simple(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, wheel in WHEELS.items():
        folder = tmp_path / name
        folder.mkdir()
        stem = "-".join(wheel.split("-")[:2])
        with zipfile.ZipFile(folder / wheel, "w") as zip_file:
            about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {wheel.split('-')[1]}\n"
            zip_file.writestr(f"{stem}.dist-info/METADATA", about)
            tag = wheel.removesuffix(".whl").split("-", 2)[2]
            zip_file.writestr(f"{stem}.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
            zip_file.writestr(f"{stem}.dist-info/RECORD", "")
        (folder / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')
    monkeypatch.setenv("PIP_INDEX_URL", tmp_path.as_uri())
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    return tmp_path


def test_requirements_that_exist_for_aarch64_have_no_finding(simple: Path) -> None:
    assert lint_index("pure==1.0\narm==2.0 # why\nold-arm\n") == []


@pytest.mark.slow
def test_the_one_that_is_missing_is_named(simple: Path) -> None:
    """pytorch/serve#2713: TorchServe says only that the installation failed."""
    findings = lint_index("pure==1.0\nintel==3.0\narm==9.9\n")
    assert [(one.code, one.where) for one in findings] == [("M308", "intel==3.0"), ("M308", "arm==9.9")]


def test_an_index_that_cannot_be_reached_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setattr(index, "RETRIES", 0)
    findings = lint_index("pure==1.0\nintel==3.0\n")
    assert codes(findings) == ["M309"]
    assert only(findings, "M309").severity == "warning"


def test_no_pip_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "no-python"))
    assert codes(lint_index("pure==1.0\n")) == ["M309"]


def test_markers_are_asked_of_an_arm_server(simple: Path) -> None:
    assert lint_index('intel==3.0; platform_machine == "x86_64"\nabsent==1; sys_platform == "win32"\n') == []
    assert codes(lint_index('intel==3.0; platform_machine == "aarch64"\n')) == ["M308"]


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "-e .\n", "./setup.py\n", "git+https://example.org/x.git\n", "x @ file:///tmp\n"]
)
def test_nothing_is_asked_when_there_is_nothing_to_ask(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is anything followed that could make pip run code."""
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("pip was started"))
    assert lint_index(text) == []
