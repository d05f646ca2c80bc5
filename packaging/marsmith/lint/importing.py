"""The import statements of a module: which run when it is loaded, and which surely run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from marsmith.lint.modules import is_never_run, last_name

CATCHING = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
# An `if` that asks one of these chooses between modules that are not all there.
CONDITIONS = frozenset({"version_info", "platform", "name", "find_spec", "machine", "system"})
# What TorchServe, or its BaseHandler, calls of a handler before or at the first request.
CALLED = frozenset({"__init__", "initialize", "handle", "preprocess", "inference", "postprocess"})
# Functions that import the module that their first argument names.
IMPORTERS = frozenset({"import_module", "__import__"})

Import = ast.Import | ast.ImportFrom
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Imported:
    """An import that the code relies on. An import that the code expects to fail is none.

    `at_load` says that it stands outside every function; `certain` that it runs whenever the module is loaded, and
    `certain_in_entry` that it runs so, or whenever TorchServe calls the handler that the module holds.
    """

    node: Import
    at_load: bool
    certain: bool
    certain_in_entry: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node stands. `runs` is meant within its function, which `entered` says is called by TorchServe."""

    at_load: bool = True
    runs: bool = True
    entered: bool = True

    def imported(self, node: Import) -> Imported:
        certain_in_entry = self.runs and self.entered
        return Imported(node, self.at_load, certain_in_entry and self.at_load, certain_in_entry)

    def maybe(self) -> _Place:
        """The same place in a branch, which may not run."""
        return _Place(self.at_load, False, self.entered)

    def within(self, function: _Function) -> _Place:
        """Inside a function that is defined here."""
        return _Place(False, self.runs, self.entered and self.at_load and function.name in CALLED)


# The imports of each member.
Imports = Mapping[str, list[Imported]]


def collect(parsed: Mapping[str, ast.Module]) -> Imports:
    """The imports that each of the parsed members relies on."""
    return {member: imports_of(tree) for member, tree in parsed.items()}


def top_names(imports: Imports) -> frozenset[str]:
    """The first part of the name of each module that is imported from outside the importing package."""
    nodes = [one.node for found in imports.values() for one in found]
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    sources = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level and node.module}
    return frozenset(name.partition(".")[0] for name in plain | sources)


def source_of(node: ast.ImportFrom, member: str) -> str | None:
    """The whole name of the module that a `from` names; None when it leaves the file's package."""
    if not node.level:
        return node.module
    parents = member.split("/")[:-1]
    kept = len(parents) - node.level + 1
    return ".".join([*parents[:kept], *filter(None, [node.module])]) if kept > 0 else None


def targets(node: Import, member: str) -> list[str]:
    """All that a statement may import: the module that it names, and what could be a module in it."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    source = source_of(node, member)
    return [source, *(f"{source}.{alias.name}" for alias in node.names)] if source else []


def imports_of(tree: ast.Module) -> list[Imported]:
    """The imports that a module relies on, in the text's order."""
    found: list[Imported] = []
    stack: list[tuple[ast.AST, _Place]] = [(tree, _Place())]
    while stack:
        node, place = stack.pop()
        if isinstance(node, Import):
            found.append(place.imported(node))
        elif (dynamic := _dynamic(node)) is not None:
            found.append(place.maybe().imported(dynamic))
        stack.extend(_children(node, place))
    return sorted(found, key=lambda one: (one.node.lineno, one.node.col_offset))


def _dynamic(node: ast.AST) -> ast.Import | None:
    """`importlib.import_module("name")` as the statement that it stands for; it often stands where it may fail."""
    match node:
        case ast.Call(func=function, args=[ast.Constant(value=str(name))]) if last_name(function) in IMPORTERS:
            if all(part.isidentifier() for part in name.split(".")):
                return ast.Import([ast.alias(name)], lineno=node.lineno, col_offset=node.col_offset)
    return None


def _children(node: ast.AST, place: _Place) -> Iterator[tuple[ast.AST, _Place]]:
    """The children of a node that the module relies on, each with its place."""
    maybe = place.maybe()
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _in_turn(node.body, place.within(node))
        case ast.Try() | ast.TryStar():
            if not any(_catches(handler.type) for handler in node.handlers):
                yield from _all(node.body, place)
                yield from _all([*node.handlers, *node.orelse], maybe)
            yield from _all(node.finalbody, place)
        case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=test)) if is_never_run(test):
            yield from _all(node.body, place)
        case ast.If() if is_never_run(node.test):
            yield from _all(node.orelse, place)
        case ast.If() if _chooses(node.test):
            pass
        case ast.If(test=ast.Constant(value=value)):
            yield from _all(node.body if value else node.orelse, place)
        case ast.With() | ast.AsyncWith() if any(_suppresses(item.context_expr) for item in node.items):
            pass
        case ast.If() | ast.For() | ast.AsyncFor() | ast.While() | ast.Match():
            yield from _all(ast.iter_child_nodes(node), maybe)
        case _:
            yield from _all(ast.iter_child_nodes(node), place)


def _all(nodes: Iterator[ast.AST] | list[ast.stmt] | list[ast.AST], place: _Place) -> Iterator[tuple[ast.AST, _Place]]:
    yield from ((node, place) for node in nodes)


def _in_turn(body: list[ast.stmt], place: _Place) -> Iterator[tuple[ast.AST, _Place]]:
    """The statements of a function: what follows one that may return may not run."""
    for statement in body:
        yield statement, place
        if place.runs and place.entered and any(isinstance(inner, ast.Return) for inner in ast.walk(statement)):
            place = place.maybe()


def _catches(caught: ast.expr | None) -> bool:
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return caught is None or any(last_name(kind) in CATCHING for kind in kinds)


def _chooses(test: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Attribute | ast.Name) and (last_name(node) in CONDITIONS or "available" in last_name(node))
        for node in ast.walk(test)
    )


def _suppresses(context: ast.expr) -> bool:
    return isinstance(context, ast.Call) and last_name(context.func) == "suppress" and any(map(_catches, context.args))
