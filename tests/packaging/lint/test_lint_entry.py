"""The handler and its entry point, found and counted as TorchServe does. A differential test asks TorchServe itself."""

import ast
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marsmith.lint.modules import bindings, classes
from tests.packaging.lint.trees import HANDLER, codes, lint_with, only

HELPER = "class Helper:\n    pass\n"
FUNCTION = "def handle(data, context):\n    return data\n"

# Code of a handler, and the codes that lint finds in it: none for what TorchServe's loader takes.
ENTRIES: dict[str, tuple[str, list[str]]] = {
    "a class": (HANDLER, []),
    "a function": (FUNCTION, []),
    "a function beside classes": (HELPER + HANDLER + FUNCTION, []),
    "an async function": (f"async {FUNCTION}", []),
    "a function that is a lambda": ("handle = lambda data, context: data\n", []),
    "a function with defaults": ("def handle(data, context=None, *, extra=1):\n    return data\n", []),
    "a function of any arguments": ("def handle(*arguments):\n    return arguments[0]\n", []),
    "a function in an if": (f"import sys\nif sys:\n    {FUNCTION.replace('    ', '        ')}", []),
    "nothing": ("x = 1\n", ["M105"]),
    "an empty file": ("", ["M105"]),
    "two classes": (HELPER + HANDLER, ["M105"]),
    "a dataclass": (f"from dataclasses import dataclass\n@dataclass\n{HELPER}{HANDLER}", ["M105"]),
    "an enum": (f"from enum import Enum\nclass Colour(Enum):\n    RED = 1\n{HANDLER}", ["M105"]),
    "an exception": (f"class Wrong(Exception):\n    pass\n{HANDLER}", ["M105"]),
    "a NamedTuple": (f"from typing import NamedTuple\nclass Two(NamedTuple):\n    a: int\n{HANDLER}", ["M105"]),
    "a class in a try": (f"try:\n    class Wrong(Exception):\n        pass\nfinally:\n    pass\n{HANDLER}", ["M105"]),
    "a class in a with": (
        f"import contextlib\nwith contextlib.suppress(Exception):\n    class A:\n        pass\n{HANDLER}",
        ["M105"],
    ),
    "namedtuple()": (f"from collections import namedtuple\nTwo = namedtuple('Two', 'a b')\n{HANDLER}", ["M105"]),
    "NamedTuple()": (f"import typing\nTwo = typing.NamedTuple('Two', [('a', int)])\n{HANDLER}", ["M105"]),
    "TypedDict()": (f"import typing\nTwo = typing.TypedDict('Two', dict(a=int))\n{HANDLER}", ["M105"]),
    "Enum()": (f"import enum\nColour = enum.Enum('Colour', 'RED BLUE')\n{HANDLER}", ["M105"]),
    "type()": (f"Made = type('Made', (), {{}})\n{HANDLER}", ["M105"]),
    "a second name for the class": (f"{HANDLER}\nAlias = Handler\n", ["M105"]),
    "an instance": (f"{HANDLER}\n_service = Handler()\n", []),
    "type() of something": (f"{HANDLER}\nkind = type(1)\n", []),
    "a class that is deleted": (f"{HELPER}{HANDLER}del Helper\n", []),
    "a class that is overwritten": (f"{HELPER}Helper = None\n{HANDLER}", []),
    "a class in a function": (f"def make():\n    class Inner:\n        pass\n    return Inner\n{HANDLER}", []),
    "an imported class": (f"from collections import OrderedDict\n{HANDLER}", []),
    "a class for type checkers": (
        f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    class A:\n        pass\n{HANDLER}",
        [],
    ),
    "a class for the main program": (f"if __name__ == '__main__':\n    class A:\n        pass\n{HANDLER}", []),
    "a class without handle": ("class A:\n    def initialize(self, context):\n        pass\n", ["M106"]),
    "a class without initialize": ("class A:\n    def handle(self, data, context):\n        pass\n", ["M106"]),
    "only a named tuple": ("from collections import namedtuple\nTwo = namedtuple('Two', 'a b')\n", ["M106"]),
    "an __init__ that wants something": (
        HANDLER.replace("    def initialize", "    def __init__(self, path):\n        pass\n\n    def initialize"),
        ["M106"],
    ),
    "an initialize without context": (HANDLER.replace("initialize(self, context)", "initialize(self)"), ["M106"]),
    "a function without context": ("def handle(data):\n    return data\n", ["M106"]),
    "a function that wants more": ("def handle(data, context, more):\n    return data\n", ["M106"]),
    "a function that wants a keyword": ("def handle(data, context, *, more):\n    return data\n", ["M106"]),
    "an import at fault": (f"import no_such_module_anywhere\n{HANDLER}", ["M107"]),
    "a syntax error": ("def handle(data, context)\n", ["M103"]),
    "a return outside a function": (f"{HANDLER}\nreturn\n", ["M103"]),
}
# What TorchServe loads all the same: the fault shows with the first request, or with a newer Python.
LATER: dict[str, tuple[str, list[str]]] = {
    "a handle without context": (HANDLER.replace("(self, data, context)", "(self, data)"), ["M106"]),
    "make_dataclass()": (f"import dataclasses\nTwo = dataclasses.make_dataclass('Two', ['a'])\n{HANDLER}", ["M105"]),
}
LOAD_ALL = """
import json, sys
from ts.model_loader import TsModelLoader

results = {}
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    sys.modules.pop("handler", None)
    try:
        TsModelLoader().load("mine", folder, "handler.py", None, 1)
        results[folder] = True
    except Exception:
        results[folder] = False
    sys.path.remove(folder)
print(json.dumps(results))
"""


@pytest.mark.parametrize("name", [*ENTRIES, *LATER])
def test_the_entry_point_is_judged(name: str) -> None:
    """pytorch/serve#1260: every class that the module defines counts. pytorch/serve#463: a function does."""
    code, expected = {**ENTRIES, **LATER}[name]
    assert codes(lint_with({"handler.py": code})) == expected


@pytest.mark.slow
def test_torchserves_own_loader_takes_exactly_what_has_no_finding(tmp_path: Path) -> None:
    folders: dict[str, str] = {}
    for number, (name, (code, _)) in enumerate(ENTRIES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "handler.py").write_text(code, encoding="utf-8")
        folders[str(folder)] = name
    command = [sys.executable, "-c", LOAD_ALL, *folders]
    output = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    loaded = {folders[folder]: value for folder, value in json.loads(output.splitlines()[-1]).items()}
    assert loaded == {name: expected == [] for name, (_, expected) in ENTRIES.items()}


STATEMENTS = st.sampled_from(
    [
        "class A: pass",
        "class B(Exception): pass",
        "class C(Exception): pass",
        "class A: pass\nD = A",
        "B = 1",
        "E = type('E', (), {})",
        "F = type(3)",
        "from collections import OrderedDict as A",
        "from collections import namedtuple; G = namedtuple('G', 'a')",
        "import enum; H = enum.Enum('H', 'RED')",
        "def A(): pass",
        "if True:\n    class I: pass\nelse:\n    J = 2",
        "try:\n    K = 1\nexcept ValueError:\n    pass\nelse:\n    class K: pass",
        "for L in [1]:\n    class M: pass",
        "N = [Z for Z in range(3)]",
        "O: type = type('O', (), {})",
        "P = Q = type('P', (), {})",
        "A = None",
    ]
)


@settings(deadline=None)
@given(st.lists(STATEMENTS, max_size=6))
def test_classes_are_counted_as_python_sees_them(statements: list[str]) -> None:
    """By running the module, which lint itself never does, and asking for what ts.utils.util asks for."""
    from ts.utils.util import list_classes_from_module

    code = "\n".join(statements)
    module = types.ModuleType("counted")
    exec(code, module.__dict__)
    tree = ast.parse(code)
    assert len(classes(tree)) == len(list_classes_from_module(module))
    assert bindings(tree).keys() >= {name for name in vars(module) if not name.startswith("__")}


@pytest.mark.parametrize(
    ("handler", "code", "says"),
    [
        ("missing.py", "M101", "missing.py"),
        ("image_classifier.py", "M101", "named without .py"),
        ("no_such_handler", "M101", "no_such_handler"),
        ("sub/inner.py", "M101", "sub/inner.py"),
        ("a.b.py", "M102", "a.b"),
        ("handler.py:absent", "M104", "absent"),
    ],
)
def test_a_handler_that_is_not_where_the_manifest_says_is_found(handler: str, code: str, says: str) -> None:
    """pytorch/serve#465, pytorch/serve#1313, pytorch/serve#1324."""
    members = {"a.b.py": FUNCTION, "sub/inner.py": FUNCTION}
    finding = only(lint_with(members, handler=handler), code)
    assert says in finding.message


def test_a_handler_in_a_folder_is_pointed_out() -> None:
    finding = only(lint_with({"sub/inner.py": FUNCTION}, handler="inner.py"), "M101")
    assert finding.remedy == "Move sub/inner.py to the archive's root."


@pytest.mark.parametrize(
    "handler",
    [
        "handler",
        "handler.py",
        "my-handler.py",
        "anywhere/handler.py",
        "package/module.py:run",
        "package.module",
        "package",
        "handler:another",
    ],
)
def test_every_spelling_that_torchserve_finds_is_fine(handler: str) -> None:
    members = {
        "handler.py": FUNCTION.replace("handle", "another") + FUNCTION,
        "my-handler.py": FUNCTION,
        "package/__init__.py": FUNCTION,
        "package/module.py": f"{FUNCTION}def run(data, context):\n    return data\n",
    }
    assert codes(lint_with(members, handler=handler)) == []


def test_a_handler_of_torchserve_needs_no_module_but_the_archives_own_comes_first() -> None:
    assert codes(lint_with({}, handler="vllm_handler")) == []
    assert codes(lint_with({"vllm_handler.py": "x = 1\n"}, handler="vllm_handler")) == ["M105"]


def test_the_handler_of_another_runtime_is_no_python() -> None:
    text = json.dumps({"runtime": "LSP", "model": {"modelName": "mine", "handler": "libmine:Handler"}})
    assert "M101" not in codes(lint_with({"MAR-INF/MANIFEST.json": text}))


def test_a_class_that_inherits_or_is_decorated_is_given_the_benefit_of_the_doubt() -> None:
    inherits = {"handler.py": "from base import Base\nclass A(Base):\n    pass\n", "base.py": "Base = object\n"}
    assert codes(lint_with(inherits)) == []
    assert codes(lint_with({"handler.py": "import functools\n@functools.cache\nclass A:\n    pass\n"})) == []


def test_the_code_is_never_run(tmp_path: Path) -> None:
    trace = f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    members = {"handler.py": trace + HANDLER, "sitecustomize.py": trace, "library/__init__.py": trace}
    assert codes(lint_with(members)) == ["M108"]
    assert list(tmp_path.iterdir()) == []


def test_a_syntax_error_is_named_with_its_line() -> None:
    assert only(lint_with({"handler.py": "x = 1\ny = (\n"}), "M103").where == "handler.py:2"


@pytest.mark.parametrize(
    "code",
    [
        "a" + ".b" * 200_000,
        "-" * 100_000 + "1",
        "(" * 300,
        "x = 1\0",
        "\ud800".encode("utf-8", "surrogatepass"),
        b"\xff",
    ],
    ids=["attributes", "signs", "parentheses", "NUL", "surrogate", "not UTF-8"],
)
def test_code_that_python_cannot_read_is_a_finding_and_no_crash(code: str | bytes) -> None:
    assert codes(lint_with({"other.py": code})) == ["M103"]


def test_a_file_in_another_encoding_is_read_by_its_cookie() -> None:
    assert codes(lint_with({"other.py": "# -*- coding: latin-1 -*-\nname = 'é'\n".encode("latin-1")})) == []
