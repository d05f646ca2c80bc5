"""M107, M111 and M113: imports that would not resolve in the worker, where TorchServe hides the reason.

pytorch/serve#1010, pytorch/serve#849.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator

from marsmith.lint import servers
from marsmith.lint.evidence import Evidence
from marsmith.lint.findings import Finding
from marsmith.lint.importing import Import, Imported, Imports, source_of, targets
from marsmith.lint.modules import Modules
from marsmith.lint.packages import installed, provided

# The archive's folder of what is no code of Marsmith, a recipe's extra files among it.
MODEL = "model"


def lint_imports(
    modules: Modules, imports: Imports, evidence: Evidence, roots: Iterable[str], *, recipe: bool = False
) -> Iterator[Finding]:
    """A finding for each import that neither the archive, nor this environment, nor a requirement resolves.

    `roots` are the members that the worker imports itself. An error is what surely runs when the worker loads or
    TorchServe calls the handler, and surely fails; a warning is what may never run, or what the server may have. With
    `recipe`, the remedy is said in a recipe's keys.
    """
    roots = frozenset(roots)

    def is_certain(member: str, one: Imported) -> bool:
        return one.certain_in_entry if member in roots else one.certain

    loaded = _loaded(modules, imports, roots, is_certain)
    for member, found in imports.items():
        lacking: dict[tuple[str, str | None, bool], Import] = {}
        for one in found:
            certain = member in loaded and is_certain(member, one)
            for name in _unresolved(one.node, member, modules, evidence.known):
                doubt = _doubt(name, one.node, modules, evidence)
                lacking.setdefault((name, doubt, certain), one.node)
        for (name, doubt, certain), node in lacking.items():
            yield Finding(
                "M107" if certain and doubt is None else "M111",
                f"{member}:{node.lineno}",
                " ".join(filter(None, [f"The import of {name} does not resolve.", doubt])),
                _remedy(node, name, modules, evidence, recipe=recipe),
            )


def _doubt(name: str, node: Import, modules: Modules, evidence: Evidence) -> str | None:
    """Why what is lacking may be there all the same: the archive's own packages are known down to the last module."""
    if (isinstance(node, ast.ImportFrom) and node.level) or not name.replace(".", "_").isidentifier():
        return None
    return evidence.unpacked(name) if name.partition(".")[0] in modules else evidence.doubt(name)


def _remedy(node: Import, name: str, modules: Modules, evidence: Evidence, *, recipe: bool) -> str:
    """What to do about an import; of a module that lies in the archive's model/, by what name it is imported."""
    named = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        named = [node.module] if node.module else named
    for one in named:
        packed = f"{MODEL}.{one}"
        if one.startswith(name.lstrip(".")) and packed in modules:
            return f"Import it as {packed}: it lies in {MODEL}/."
    if recipe:
        return (
            f"Name a module of your own in the recipe's key extra_files and import it as {MODEL}.NAME, require a "
            "package in its key requirements, or correct the name."
        )
    top = name.partition(".")[0]
    if left_out := evidence.beside.get(top):
        return f"{left_out} was not packed: name it in --extra-files, or say --assume {top} when the server has it."
    if top.isidentifier() and top not in modules:
        return (
            "Pack the module, require its package in requirements.txt, say --assume "
            f"{top} when the server has it, or correct the name."
        )
    return "Pack the module, require its package in requirements.txt, or correct the name."


def lint_servers(
    modules: Modules, imports: Imports, evidence: Evidence, built_in: str | None = None
) -> Iterator[Finding]:
    """A warning for each module that is imported, but that not every server has; `built_in` is TorchServe's handler.

    An import that the code expects to fail is left alone.
    """
    wanted: dict[str, tuple[str, str]] = {}
    if built_in:
        for name in servers.MODULE_IMPORTS.get(f"{servers.HANDLERS}.{built_in}", ()):
            wanted[name] = (built_in, f"The handler {built_in} imports it.")
    for member, found in imports.items():
        for one in found:
            where = f"{member}:{one.node.lineno}"
            for target in targets(one.node, member):
                top = target.partition(".")[0]
                if top in servers.SOME_SERVERS:
                    wanted.setdefault(top, (where, ""))
                for name in servers.MODULE_IMPORTS.get(target, ()):
                    wanted.setdefault(name, (where, f"{target} imports it."))
    for name, (where, reason) in sorted(wanted.items()):
        if name not in evidence.brought and name not in modules:
            yield Finding(
                "M113",
                where,
                " ".join(filter(None, [f"Not every server has {name}.", reason])),
                "TorchServe's own image has it; pip install torchserve, marsmith serve and the ARM64 image do not bring"
                f" it: install it where the archive is served, and pack with --assume {name}.",
            )


def unrequired(
    modules: Modules, imports: Imports, requirements: Iterable[str], roots: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Each module that is installed here, but that neither a server nor a requirement brings, with where it is needed.

    `requirements` are canonical package names; the other arguments are those of `lint_imports`.
    """
    roots = frozenset(roots)
    brought = frozenset(sys.stdlib_module_names) | servers.KNOWN | provided(requirements)
    found: dict[str, str] = {}
    for member in sorted(_loaded(modules, imports, roots, lambda _, one: one.at_load)):
        for one in imports[member]:
            if not (one.at_load or member in roots) or (isinstance(one.node, ast.ImportFrom) and one.node.level):
                continue
            for name in targets(one.node, member)[: 1 if isinstance(one.node, ast.ImportFrom) else None]:
                top = name.partition(".")[0]
                if top in installed() and top not in brought and top not in modules:
                    found.setdefault(top, f"{member}:{one.node.lineno}")
    yield from sorted(found.items())


def _loaded(
    modules: Modules, imports: Imports, roots: Iterable[str], runs: Callable[[str, Imported], bool]
) -> set[str]:
    """The members that are imported, one by the other, by the imports that run."""
    loaded: set[str] = set()
    pending = list(roots)
    while pending:
        member = pending.pop()
        if member in loaded or member not in imports:
            continue
        loaded.add(member)
        for one in imports[member]:
            if not runs(member, one):
                continue
            for name in targets(one.node, member):
                parts = name.split(".")
                packages = (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))
                pending += [modules.members[package] for package in packages if package in modules.members]
    return loaded


def _unresolved(node: Import, member: str, modules: Modules, known: frozenset[str]) -> Iterator[str]:
    """What an import statement does not find: a module nobody has, or a part of one that the archive holds."""
    if isinstance(node, ast.Import):
        yield from (lacking for alias in node.names if (lacking := _lacking(alias.name, modules, known)))
        return
    source = source_of(node, member)
    if source is None:
        yield "." * node.level + (node.module or "")
        return
    if node.level and source not in modules:
        yield source
        return
    if not node.level and (lacking := _lacking(source, modules, known)):
        yield lacking
        return
    for alias in node.names:
        if alias.name != "*" and not _has(source, alias.name, modules, known):
            yield f"{alias.name} from {source}"


def _lacking(name: str, modules: Modules, known: frozenset[str]) -> str | None:
    """What `import name` does not find; a package that the archive holds is known down to its last module."""
    top = name.partition(".")[0]
    if name in modules or (top in known and top not in modules.members):  # a mere folder gives way to the installed
        return None
    if top not in modules:
        return top
    parts = name.split(".")
    opaque = any(modules.is_opaque(".".join(parts[:depth])) for depth in range(1, len(parts)))
    return None if opaque else name


def _has(source: str, name: str, modules: Modules, known: frozenset[str]) -> bool:
    """Whether `from source import name` finds the name, where the archive's text can tell."""
    top = source.partition(".")[0]
    if f"{source}.{name}" in modules or (top in known and top not in modules.members):
        return True
    if source in modules.folders and source not in modules.members:
        return False
    names = modules.names(source)
    return names is None or name in names
