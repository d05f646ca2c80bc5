"""The Python modules of an archive: parsed, never run, and what each one binds."""

from __future__ import annotations

import ast
import platform
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from marsmith.ground.limits import MAX_PARSED_BYTES, MAX_TEXT_BYTES
from marsmith.lint.findings import Finding
from marsmith.lint.tree import Tree

# Compiled modules: their names count, their content is not looked into.
BINARY_SUFFIXES = (".so", ".pyd", ".pyc")
# Calls that make a class whose __module__ is the caller's, by the number of arguments from which they do.
CLASS_FACTORIES = {"namedtuple": 2, "NamedTuple": 1, "TypedDict": 1, "make_dataclass": 2, "type": 3} | dict.fromkeys(
    ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"), 2
)
# A module that uses one of these may bind names that its text does not show.
DYNAMIC = frozenset({"globals", "vars", "locals", "exec", "eval", "setattr", "__getattr__"})
# What every module has.
IMPLICIT = frozenset({"__name__", "__doc__", "__file__", "__path__", "__package__", "__spec__", "__loader__"})

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NESTED_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, *_COMPREHENSIONS)


@dataclass(frozen=True, slots=True)
class Modules:
    """The archive's modules by dotted name, and the folders that hold any.

    `members` gives a module's member; `parsed` the syntax tree of each .py member that compiles.
    """

    members: Mapping[str, str]
    folders: frozenset[str]
    parsed: Mapping[str, ast.Module]
    _names: dict[str, frozenset[str] | None] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: Tree, parsed: Mapping[str, ast.Module]) -> Modules:
        """Name the modules of a tree."""
        members: dict[str, str] = {}
        folders: set[str] = set()
        for member in tree.files:
            *parents, file = member.split("/")
            if not file.endswith((".py", *BINARY_SUFFIXES)) or "__pycache__" in parents:
                continue
            stem = file.removesuffix(".py") if file.endswith(".py") else file.partition(".")[0]
            parts = parents if stem == "__init__" else [*parents, stem]
            if not parts or any("." in part for part in parts):
                continue  # no import statement can say such a name
            name = ".".join(parts)
            if file.endswith(".py") or name not in members:
                members[name] = member
            folders |= {".".join(parents[:depth]) for depth in range(1, len(parents) + 1)}
        return cls(members, frozenset(folders), parsed)

    def __contains__(self, name: str) -> bool:
        return name in self.members or name in self.folders

    def tree(self, name: str) -> ast.Module | None:
        """The syntax tree of a module; None for a folder, a compiled module, or one that does not compile."""
        return self.parsed.get(self.members.get(name, ""))

    def is_opaque(self, name: str) -> bool:
        """Whether a module is there whose text cannot be looked into."""
        return name in self.members and self.tree(name) is None

    def names(self, module: str) -> frozenset[str] | None:
        """What can be imported from a module by name; None where its text cannot tell."""
        if module not in self._names:
            tree = self.tree(module)
            self._names[module] = None if tree is None or is_dynamic(tree) else IMPLICIT | bindings(tree).keys()
        return self._names[module]


def parse(tree: Tree) -> tuple[dict[str, ast.Module], list[Finding]]:
    """The syntax tree of each .py member by its name, and a finding for each one that does not compile.

    Of more than MAX_PARSED_BYTES of source, only the files nearest to the root have one: a tree takes up to 300 times
    its source's memory.
    """
    parsed: dict[str, ast.Module] = {}
    findings: list[Finding] = []
    room = MAX_PARSED_BYTES
    for member in sorted(tree.files, key=lambda name: (name.count("/"), name)):
        if not member.endswith(".py") or tree.sizes[member] > MAX_TEXT_BYTES:
            continue
        source = tree.head(member, MAX_TEXT_BYTES)
        if source is None:
            continue
        room -= len(source)
        try:
            module = _parse(source)
            if room >= 0:
                parsed[member] = module
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            findings.append(
                Finding(
                    "M103",
                    f"{member}:{line}" if line else member,
                    f"Python {platform.python_version()} cannot compile it: {_reason(error)}.",
                    "Correct the file; python -m py_compile shows the place.",
                )
            )
    return parsed, findings


def _parse(source: bytes) -> ast.Module:
    """Compile as Python's import would, encoding cookie included, and parse; the code object is dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(source, "<member>", "exec", dont_inherit=True)
        return ast.parse(source)


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError | MemoryError):
        return "it is nested too deeply"
    return str(getattr(error, "msg", None) or type(error).__name__)


def scope(owner: ast.Module | ast.ClassDef) -> Iterator[ast.AST]:
    """The nodes that run in the scope of a module or class, in the text's order, without those in nested scopes.

    What only a type checker or `python module.py` runs is left out.
    """
    stack: list[ast.AST] = list(reversed(owner.body))
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, _NESTED_SCOPES):
            continue
        children = node.orelse if isinstance(node, ast.If) and is_never_run(node.test) else ast.iter_child_nodes(node)
        stack.extend(reversed(list(children)))


def is_never_run(test: ast.expr) -> bool:
    """Whether an `if` asks for TYPE_CHECKING, or whether the module is the main program."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        return any(isinstance(side, ast.Name) and side.id == "__name__" for side in (test.left, *test.comparators))
    return last_name(test) == "TYPE_CHECKING"


def last_name(node: ast.expr | None) -> str:
    """`c` of `a.b.c`; empty for what is no dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def bindings(owner: ast.Module | ast.ClassDef) -> dict[str, ast.AST]:
    """What a scope binds: each name with the node that binds it last. `*` stands for a star import."""
    bound: dict[str, ast.AST] = {}
    for node in scope(owner):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound[name] = node
            case ast.Import(names=names):
                bound |= {alias.asname or alias.name.partition(".")[0]: node for alias in names}
            case ast.ImportFrom(names=names):
                bound |= {alias.asname or alias.name: node for alias in names}
            case ast.Name(id=name, ctx=ast.Store()):
                bound[name] = node
            case ast.Name(id=name, ctx=ast.Del()):
                bound.pop(name, None)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound[name] = node
            case _:
                pass
    return bound


def is_dynamic(module: ast.Module) -> bool:
    """Whether the module may bind names that its text does not show."""
    bound = bindings(module)
    used = {node.id for node in scope(module) if isinstance(node, ast.Name)}
    return "*" in bound or not DYNAMIC.isdisjoint(bound.keys() | used)


def classes(module: ast.Module) -> dict[str, ast.ClassDef | None]:
    """The names under which TorchServe finds classes defined in the module; None for one made by a call.

    inspect.getmembers goes by name: a second name for a class counts a second time.
    """
    bound = bindings(module)
    found: dict[str, ast.ClassDef | None] = {}
    for node in scope(module):
        if isinstance(node, ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            if isinstance(node.value, ast.Name) and node.value.id in found:
                found |= dict.fromkeys(names, found[node.value.id])
            elif _makes_class(node.value):
                found |= dict.fromkeys(names, None)
            else:
                for name in names:
                    found.pop(name, None)
    return {name: node for name, node in found.items() if isinstance(bound.get(name), ast.ClassDef | ast.Name)}


def _makes_class(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call):
        return False
    least = CLASS_FACTORIES.get(last_name(value.func))
    return least is not None and len(value.args) + len(value.keywords) >= least
