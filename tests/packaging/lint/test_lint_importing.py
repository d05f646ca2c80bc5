"""Which imports a module relies on, and which of them surely run."""

import ast

import pytest

from marsmith.lint.importing import collect, imports_of, top_names

# A module by its code, and of the import in it: whether it runs when loaded, whenever loaded, and in an entry module.
LOAD, ENTRY = (True, True, True), (False, False, True)
MAYBE_AT_LOAD, MAYBE = (True, False, False), (False, False, False)


def method(name: str, body: str) -> str:
    return f"class A:\n    def {name}(self, context):\n        " + body.replace("\n", "\n        ")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import a", LOAD),
        ("class A:\n    import a", LOAD),
        ("with x:\n    import a", LOAD),
        ("if True:\n    import a", LOAD),
        ("if 0:\n    pass\nelse:\n    import a", LOAD),
        ("if not TYPE_CHECKING:\n    import a", LOAD),
        ("if __name__ != '__main__':\n    import a", MAYBE_AT_LOAD),
        ("try:\n    import a\nexcept ValueError:\n    pass", LOAD),
        ("try:\n    pass\nexcept ValueError:\n    import a", MAYBE_AT_LOAD),
        ("try:\n    pass\nexcept ValueError:\n    pass\nelse:\n    import a", MAYBE_AT_LOAD),
        ("try:\n    pass\nfinally:\n    import a", LOAD),
        ("try:\n    pass\nexcept* ValueError:\n    import a", MAYBE_AT_LOAD),
        ("if x:\n    import a", MAYBE_AT_LOAD),
        ("if x:\n    pass\nelif y:\n    import a", MAYBE_AT_LOAD),
        ("for _ in x:\n    import a", MAYBE_AT_LOAD),
        ("for _ in x:\n    pass\nelse:\n    import a", MAYBE_AT_LOAD),
        ("while x:\n    import a", MAYBE_AT_LOAD),
        ("match x:\n    case 1:\n        import a", MAYBE_AT_LOAD),
        ("if x:\n    with y:\n        import a", MAYBE_AT_LOAD),
        ("a = importlib.import_module('a')", MAYBE_AT_LOAD),
        ("a = __import__('a') if x else None", MAYBE_AT_LOAD),
        ("later = lambda: import_module('a')", MAYBE_AT_LOAD),
        ("def handle(data, context):\n    import a", ENTRY),
        ("async def handle(data, context):\n    import a", ENTRY),
        (method("initialize", "import a"), ENTRY),
        (method("__init__", "with x:\n    import a"), ENTRY),
        (method("postprocess", "try:\n    import a\nfinally:\n    pass"), ENTRY),
        (method("initialize", "if not x:\n    raise ValueError\nimport a"), ENTRY),
        (method("initialize", "if x:\n    return\nimport a"), MAYBE),
        (method("initialize", "if x:\n    import a"), MAYBE),
        (method("initialize", "def inner():\n    import a"), MAYBE),
        (method("initialize", "class B:\n    def initialize(self):\n        import a"), MAYBE),
        (method("load", "import a"), MAYBE),
        ("def late():\n    import a", MAYBE),
        ("if x:\n    def handle(data, context):\n        import a", MAYBE),
    ],
)
def test_an_import_surely_runs_or_not(code: str, expected: tuple[bool, bool, bool]) -> None:
    (found,) = imports_of(ast.parse(code))
    assert (found.at_load, found.certain, found.certain_in_entry) == expected


@pytest.mark.parametrize(
    "code",
    [
        "importlib.import_module(name)",
        "importlib.import_module('.a', 'b')",
        "importlib.import_module('not a name')",
        "importlib.import_module()",
        "if TYPE_CHECKING:\n    import a",
        "if '__main__' == __name__:\n    import a",
        "try:\n    import_module('a')\nexcept ImportError:\n    pass",
    ],
)
def test_what_names_no_module_or_may_fail_is_left_alone(code: str) -> None:
    assert imports_of(ast.parse(code)) == []


def test_each_module_is_gone_through_once_and_its_imports_stand_in_order() -> None:
    trees = {"a.py": ast.parse("def f():\n    import x.y\nimport z, os\nfrom . import w\nfrom v.u import t")}
    imports = collect(trees)
    assert [one.node.lineno for one in imports["a.py"]] == [2, 3, 4, 5]
    assert top_names(imports) == {"x", "z", "os", "v"}
