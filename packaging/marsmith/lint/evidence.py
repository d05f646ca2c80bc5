"""What is known of the server that an archive will run on, as far as imports go, and what is not."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from marsmith.lint import servers
from marsmith.lint.bundles import Bundles
from marsmith.lint.importing import Imports, top_names
from marsmith.lint.modules import Modules, last_name
from marsmith.lint.packages import installed, provided, unknown
from marsmith.lint.requirements import brings_unnamed, required, requirements_member
from marsmith.lint.tree import Tree
from marsmith.mar.assumptions import assumed

# Words of a command that installs packages when the handler runs it.
INSTALLERS = frozenset({"pip", "pip3", "conda", "uv"})
# A requirements file may have a hundred lines; so many names make the point.
SHOWN_NAMES = 3


@dataclass(frozen=True)
class Evidence:
    """Which top-level modules the worker has for sure (`brought`) or probably (`known`), and why another may be there.

    `unclear` are required or assumed packages that are not installed here, `bundles` the packed files that may hold
    modules, and `beside` the modules that lie beside what was packed and were left out, by name.
    """

    brought: frozenset[str]
    known: frozenset[str]
    unclear: tuple[str, ...]
    has_requirements: bool
    has_unnamed_requirements: bool
    modules: Modules
    bundles: Bundles
    beside: Mapping[str, Path]

    @classmethod
    def of(cls, tree: Tree, manifest: Mapping[str, Any], modules: Modules, imports: Imports) -> Evidence:
        """Gather it from the requirements, from what the packer assumed, and from the code's own text."""
        requirements = required(tree, manifest)
        vouched = {canonicalize_name(name) for name in assumed(manifest)}
        brought = frozenset(sys.stdlib_module_names) | servers.EVERY_SERVER | provided(requirements | vouched)
        # A name that was assumed is a module's where one is imported by it; else it is a package's.
        imported = {canonicalize_name(name) for name in top_names(imports)} if vouched else set()
        return cls(
            brought=brought,
            known=brought | installed().keys() | servers.SOME_SERVERS,
            unclear=tuple(unknown({*requirements, *(vouched - imported)})),
            has_requirements=requirements_member(tree, manifest) in tree.sizes,
            has_unnamed_requirements=brings_unnamed(tree, manifest),
            modules=modules,
            bundles=Bundles(tree),
            beside=tree.beside,
        )

    def doubt(self, module: str) -> str | None:
        """Why a module that nobody is known to bring may be there all the same; None when it surely is not."""
        if module.partition(".")[0] in self.beside:
            return None
        if unpacked := self.unpacked(module):
            return unpacked
        if closed := self.bundles.closed():
            return f"{closed} may bring it: lint does not look into that file."
        return next(iter(self._doubts), None)

    def unpacked(self, module: str) -> str | None:
        """The packed file that has the module, in a sentence."""
        member = self.bundles.holding(module)
        return f"{member} has it, and the handler must unpack that or put it on sys.path first." if member else None

    @cached_property
    def _doubts(self) -> tuple[str, ...]:
        """Sentences about any module; the code is looked through only when one is needed."""
        doubts = [*_of_code(self.modules)]
        if self.unclear:
            doubts.append(f"It may come with {_listed(self.unclear)}, whose modules are not known on this machine.")
        if self.has_unnamed_requirements:
            doubts.append("It may come with a line of the requirements that lint does not follow.")
        if not self.has_requirements:
            doubts.append("No requirements say what the model needs: the server must have it.")
        return tuple(doubts)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN_NAMES]) + (" and others" if len(names) > SHOWN_NAMES else "")
    return shown if len(names) == 1 else f"one of {shown}"


def _of_code(modules: Modules) -> list[str]:
    """What the code does that may bring modules from elsewhere."""
    doubts: dict[str, None] = {}
    for node in (node for tree in modules.parsed.values() for node in ast.walk(tree)):
        if isinstance(node, ast.Constant) and _installs(node.value):
            doubts["The code seems to install packages itself."] = None
        elif _changes_path(node):
            doubts["The code changes sys.path, and may find it there."] = None
    return list(doubts)


def _installs(value: object) -> bool:
    """Whether a text is such a command, or the first word of one; a sentence that speaks of one is not."""
    if not isinstance(value, str):
        return False
    words = value.split()
    return "-m pip install" in value or (words[:1] != [] and words[0] in INSTALLERS and words[1:2] in ([], ["install"]))


def _changes_path(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == "path":
        return last_name(node.value) == "sys"
    return isinstance(node, ast.Call) and last_name(node.func) == "addsitedir"
