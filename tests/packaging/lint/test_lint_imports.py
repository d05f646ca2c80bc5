"""Imports that resolve in the worker, and those that do not."""

import pytest

from tests.packaging.lint.trees import HANDLER, codes, lint_with, only

PACKAGE = {"library/__init__.py": "VERSION = 1\n", "library/inner.py": "from library import VERSION\nvalue = 2\n"}


def with_code(code: str, **members: str) -> list[str]:
    return codes(lint_with({**PACKAGE, **members, "handler.py": f"{code}\n{HANDLER}"}))


@pytest.mark.parametrize(
    "code",
    [
        "import json, os.path, xml.etree.ElementTree",
        "import torch, ts.torch_handler.base_handler",
        "import numpy as np",
        "from PIL import Image",
        "import requests",
        "import yaml",
        "import library, library.inner",
        "from library.inner import value",
        "from library import inner, VERSION",
        "from library import *",
        "from library import __name__",
        "from __future__ import annotations",
    ],
)
def test_what_the_worker_has_resolves(code: str) -> None:
    assert with_code(code) == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import absent_module", "absent_module"),
        ("import absent.inner, absent\nfrom absent.deep import thing", "absent"),
        ("from absent import thing", "absent"),
        ("def handle(data, context):\n    import absent", "absent"),
        ("class A:\n    def initialize(self, context):\n        import absent\ndel A", "absent"),
        ("class A:\n    import absent\ndel A", "absent"),
        ("import library.absent", "library.absent"),
        ("from library.absent import thing", "library.absent"),
        ("from library import absent", "absent from library"),
        ("from library.inner import absent", "absent from library.inner"),
        ("from . import library", "."),
        ("try:\n    import absent\nexcept ValueError:\n    pass", "absent"),
        ("try:\n    pass\nexcept ImportError:\n    pass\nfinally:\n    import absent", "absent"),
        ("try:\n    import json\nfinally:\n    import absent", "absent"),
        ("import typing\nif typing.TYPE_CHECKING:\n    pass\nelse:\n    import absent", "absent"),
    ],
)
def test_an_import_that_does_not_resolve_is_named(code: str, name: str) -> None:
    """pytorch/serve#1010, pytorch/serve#849: TorchServe hides the reason behind a module of its own."""
    finding = only(lint_with({**PACKAGE, "handler.py": f"{code}\n{HANDLER}"}), "M107")
    assert finding.message == f"The import of {name} does not resolve."


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    import absent\nexcept ImportError:\n    absent = None",
        "try:\n    import absent\nexcept (KeyError, ModuleNotFoundError):\n    import other_absent",
        "try:\n    import absent\nexcept Exception:\n    pass\nelse:\n    import absent.inner",
        "try:\n    import absent\nexcept:\n    pass",
        "try:\n    if True:\n        from absent import thing\nexcept ImportError:\n    pass",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import absent",
        "import sys\nif sys.version_info >= (3, 99):\n    import absent",
        "import importlib.util\nif importlib.util.find_spec('absent'):\n    import absent",
        "import contextlib\nwith contextlib.suppress(ImportError):\n    import absent",
    ],
)
def test_an_import_that_the_code_expects_to_fail_is_left_alone(code: str) -> None:
    assert with_code(code) == []


def test_what_the_requirements_bring_resolves_by_the_name_it_is_imported_by() -> None:
    code = "import cv2, sklearn.metrics, some_package, PIL"
    requirements = "opencv-python-headless==4.12.0.88\nscikit-learn==1.7.0\nsome-package==1.0\npillow==12.0.0\n"
    assert with_code(code, **{"requirements.txt": requirements}) == []
    assert with_code(code) == ["M107"]


@pytest.mark.parametrize(
    ("code", "resolves"),
    [
        ("from . import inner", True),
        ("from .inner import value", True),
        ("from ..library import inner", False),
        ("from .. import inner", False),
        ("from .absent import value", False),
        ("from . import absent", False),
    ],
)
def test_relative_imports_are_followed_from_the_file_that_holds_them(code: str, resolves: bool) -> None:
    handler = f"import library.other\n{HANDLER}"
    findings = lint_with({**PACKAGE, "library/other.py": f"{code}\n", "handler.py": handler})
    assert codes(findings) == ([] if resolves else ["M107"])
    assert all(one.where == "library/other.py:1" for one in findings)


@pytest.mark.parametrize("line", ["from os import *", "globals()['absent'] = 1", "def __getattr__(name): return 1"])
def test_a_module_that_may_bind_more_than_it_shows_is_believed(line: str) -> None:
    assert with_code("from library import absent", **{"library/__init__.py": f"{line}\n"}) == []


def test_a_compiled_module_is_not_looked_into() -> None:
    compiled = {"native.cpython-311-x86_64-linux-gnu.so": "", "library/fast.so": ""}
    assert with_code("import native, library.fast\nfrom native import thing", **compiled) == []


def test_a_folder_without_init_is_a_package_too() -> None:
    members = {"plain/inner.py": "x = 1\n"}
    assert with_code("import plain.inner\nfrom plain import inner\nfrom plain.inner import x", **members) == []
    assert with_code("from plain import x", **members) == ["M107"]
    assert with_code("import plain.absent", **members) == ["M107"]


def loads(statement: str, inner: str, **members: str) -> list[tuple[str, str]]:
    """The findings when the handler says `statement`, and library/inner.py is `inner`."""
    handler = f"{statement}\n{HANDLER}"
    findings = lint_with({"library/__init__.py": "", "library/inner.py": inner, "handler.py": handler, **members})
    return [(one.code, one.where) for one in findings]


LATE = "def late():\n    import absent\n"


@pytest.mark.parametrize(
    "statement", ["import library.inner", "from library import inner", "from library.inner import *"]
)
def test_what_the_worker_loads_must_resolve_and_what_may_never_run_may_not(statement: str) -> None:
    assert loads(statement, "import absent\n") == [("M107", "library/inner.py:1")]
    assert loads(statement, LATE) == [("M111", "library/inner.py:2")]
    assert loads(f"def later():\n    {statement.replace('*', 'absent')}", "import absent\n") == [
        ("M111", "library/inner.py:1")
    ]


def test_a_file_that_nobody_imports_is_looked_at_too() -> None:
    assert loads("", "\n\nimport absent\n") == [("M111", "library/inner.py:3")]


def test_a_package_runs_before_its_modules() -> None:
    found = loads("import library.inner", "", **{"library/__init__.py": "class A:\n    import absent\n"})
    assert found == [("M107", "library/__init__.py:2")]


def test_the_model_file_is_loaded_as_well() -> None:
    findings = lint_with({"model.py": "import absent\n"}, modelFile="model.py")
    assert codes(findings) == ["M107"]


def test_modules_that_import_each_other_are_followed_once() -> None:
    assert loads("import library.inner", "import handler\n") == []
