"""The lock of the ARM64 image: what was tested, whole, and by hash."""

import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
INPUT = (ROOT / "packaging/requirements-arm64.in").read_text(encoding="utf-8")
LOCK = (ROOT / "packaging/requirements-arm64.lock").read_text(encoding="utf-8")
PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
ARM64 = {"platform_machine": "aarch64", "sys_platform": "linux", "python_version": "3.11", "extra": ""}


def pins(text: str) -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in PIN.findall(text)}


def test_the_image_has_the_tested_versions() -> None:
    tested = pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    locked = pins(LOCK)
    assert locked == {name: tested[name] for name in locked}


def test_every_wheel_has_a_hash() -> None:
    blocks = LOCK.split("\n\n") if "\n\n" in LOCK else re.split(r"\n(?=\w)", LOCK.strip())
    assert len(blocks) == len(pins(LOCK))
    assert all("--hash=sha256:" in block for block in blocks)


def test_nothing_that_is_needed_is_missing_and_torch_is_not_there() -> None:
    left_out = {canonicalize_name(name) for name in re.findall(r"^# without: (\S+)$", INPUT, re.MULTILINE)}
    wanted = {canonicalize_name(name) for name in re.findall(r"^[a-z][\w.-]*$", INPUT, re.MULTILINE)}
    closure: set[str] = set()
    while wanted:
        name = wanted.pop()
        closure.add(name)
        needed = (Requirement(one) for one in requires(name) or [])
        names = {canonicalize_name(one.name) for one in needed if one.marker is None or one.marker.evaluate(ARM64)}
        wanted |= names - closure - left_out
    assert closure == set(pins(LOCK))
    assert not closure & {"torch", "transformers", "onnx"}
    assert not left_out & closure


def imported(*modules: str) -> set[str]:
    """The packages of which a Python that imports these has a module."""
    code = f"import sys, {', '.join(modules)}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    owners = packages_distributions()
    return {canonicalize_name(owner) for name in found for owner in owners.get(name, ())}


@pytest.mark.slow
def test_what_runs_in_the_container_imports_nothing_else() -> None:
    entry, health = imported("marsmith.container.entrypoint"), imported("marsmith.container.health")
    handlers = imported("handlers.sentiment", "handlers.food", "handlers.text", "handlers.image", "handlers.engine")
    assert {"cryptography", "requests", "psutil"} <= entry
    assert {"onnxruntime", "tokenizers", "pillow"} <= handlers
    assert (entry | health | handlers) - imported("os") - {"marsmith"} <= set(pins(LOCK))
