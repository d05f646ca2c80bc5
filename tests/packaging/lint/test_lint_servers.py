"""What the tables of servers say, held against TorchServe itself, the ARM64 lock, and this environment."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from marsmith.lint import servers
from marsmith.lint.importing import imports_of, targets
from marsmith.lint.packages import installed, provided
from marsmith.lint.requirements import lines
from tests.packaging.lint.trees import HANDLER, codes, lint_with

ROOT = Path(__file__).parents[3]
LOCK = ROOT / "packaging/requirements-arm64.lock"


@cache
def torchserve() -> Path:
    spec = find_spec("ts")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def needed(module: str, seen: set[str]) -> Iterator[str]:
    """The top-level modules that a module of TorchServe imports as it is loaded, itself or by others of TorchServe."""
    path = torchserve().parent / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if module in seen or not file.is_file():
        return
    seen.add(module)
    member = str(file.relative_to(torchserve().parent))
    for one in imports_of(ast.parse(file.read_text(encoding="utf-8"))):
        for target in targets(one.node, member) if one.at_load else ():
            if target.startswith("ts."):
                yield from needed(target, seen)
            else:
                yield target.partition(".")[0]


def outside(module: str) -> set[str]:
    return set(needed(module, set())) - set(sys.stdlib_module_names) - {"ts", "builtins"}


def test_the_worker_imports_what_every_server_has() -> None:
    found = outside("ts.model_service_worker")
    assert "yaml" in found
    assert found <= servers.WORKER


def test_what_torchserve_declares_is_on_every_server() -> None:
    declared = [Requirement(line) for line in requires("torchserve") or []]
    names = {canonicalize_name(one.name) for one in declared if one.marker is None}
    assert names
    assert provided(names) <= servers.WORKER


@pytest.mark.parametrize(
    "module",
    [
        f"ts.{folder}.{file.stem}"
        for folder in ("torch_handler", "torch_handler.distributed", "handler_utils")
        for file in sorted((torchserve() / folder.replace(".", "/")).glob("*.py"))
    ],
)
def test_what_a_module_of_torchserve_needs_is_known(module: str) -> None:
    assert servers.MODULE_IMPORTS.get(module, frozenset()) == outside(module) & servers.SOME_SERVERS


def test_marsmith_and_its_image_have_what_every_server_has_and_bring_no_more() -> None:
    locked = provided(
        canonicalize_name(line.requirement.name)
        for line in lines(LOCK.read_text(encoding="utf-8"))
        if line.requirement is not None
    )
    assert servers.EVERY_SERVER - {"torch"} <= locked
    assert not servers.SOME_SERVERS & locked
    ours = provided(canonicalize_name(Requirement(line).name) for line in requires("marsmith") or [] if ";" not in line)
    assert not servers.SOME_SERVERS & ours
    assert installed().keys() >= servers.EVERY_SERVER


def findings(code: str, **model: str) -> list[tuple[str, str]]:
    found = lint_with({"handler.py": f"{code}\n{HANDLER}"}, **model)
    return [(one.code, one.where) for one in found]


@pytest.mark.parametrize("module", sorted(servers.SOME_SERVERS))
def test_what_not_every_server_has_is_named_wherever_it_is_imported(module: str) -> None:
    assert findings(f"import {module}") == [("M113", "handler.py:1")]
    assert findings(f"def late():\n    from {module}.inner import thing") == [("M113", "handler.py:2")]
    assert findings(f"try:\n    import {module}\nexcept ImportError:\n    pass") == []
    assert findings(f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import {module}") == []


def test_what_is_packed_or_required_is_there() -> None:
    handler = f"import captum.attr\n{HANDLER}"
    required = {"handler.py": handler, "requirements.txt": "captum==0.8.0\n"}
    assert codes(lint_with(required)) == []
    # A module of one's own hides the server's: that is another finding.
    assert codes(lint_with({"handler.py": handler, "captum/__init__.py": "", "captum/attr.py": ""})) == ["M108"]


def test_the_finding_says_what_brings_the_import_and_where_it_is() -> None:
    code = "from ts.torch_handler.vision_handler import VisionHandler"
    (finding,) = [one for one in lint_with({"handler.py": f"{code}\n{HANDLER}"}) if one.code == "M113"]
    assert finding.message == "Not every server has captum. ts.torch_handler.vision_handler imports it."
    assert "TorchServe's own image has it" in finding.remedy
    assert "pip install torchserve, marsmith serve and the ARM64 image do not bring it" in finding.remedy
