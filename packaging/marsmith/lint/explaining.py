"""M610: explanations that the recipe asks for and its handler does not give, so that each is answered 501."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from marsmith.lint.findings import Finding
from marsmith.lint.importing import source_of
from marsmith.lint.modules import Modules, bindings, classes

# Who defines one of these answers explanations, or may.
METHODS = frozenset({"explain", "handle", "__getattr__"})
# Its own explain answers that there is none.
BASE = ("handlers/base.py", "BatchHandler")


def lint_explaining(modules: Modules, member: str) -> Iterator[Finding]:
    """A finding when the entry class of a handler surely has no `explain`; nothing where a base is not known."""
    module = modules.parsed.get(member)
    found = classes(module) if module and "handle" not in bindings(module) else {}
    for name, node in found.items():
        if len(found) == 1 and node and _lacks(node, member, modules, frozenset()):
            yield Finding(
                "M610",
                f"{member}:{node.lineno}",
                f"The recipe says explain = true, but {name} has no method explain: each explanation would be refused.",
                "Define explain(self, instance), derive from SentimentHandler or FoodHandler, or leave explain out.",
            )


def _lacks(node: ast.ClassDef, member: str, modules: Modules, seen: frozenset[ast.ClassDef]) -> bool:
    """Whether a class, defined in a member, surely has no `explain`, its own or a base's, but BatchHandler's."""
    if (member, node.name) == BASE:
        return True
    if not METHODS.isdisjoint(bindings(node)) or node.decorator_list or node.keywords or node in seen:
        return False
    bases = [_class(base, member, modules) for base in node.bases]
    return all(base is not None and _lacks(*base, modules, seen | {node}) for base in bases)


def _class(base: ast.expr, member: str, modules: Modules) -> tuple[ast.ClassDef, str] | None:
    """The class that an expression names in a member, with the member that defines it; None where that is unknown."""
    path = ast.unparse(base.value if isinstance(base, ast.Subscript) else base).split(".")
    for _ in modules.parsed:  # at most so many modules hand a name on
        bound = bindings(modules.parsed[member]).get(path[0])
        match bound:
            case ast.ClassDef() if len(path) == 1:
                return bound, member
            case ast.ImportFrom(names=names):
                original = next(alias.name for alias in names if path[0] in (alias.asname, alias.name))
                path = [*(source_of(bound, member) or "").split("."), original, *path[1:]]
            case ast.Import(names=names):
                alias = next(one for one in names if path[0] in (one.asname, one.name.partition(".")[0]))
                path = [*(alias.name.split(".") if alias.asname else path[:1]), *path[1:]]
            case _:
                return None
        member, path = modules.members.get(".".join(path[:-1]), ""), path[-1:]
        if member not in modules.parsed:
            return None
    return None
