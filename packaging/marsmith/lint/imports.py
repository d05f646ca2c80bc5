"""M107: imports that would not resolve in the worker, where TorchServe hides the reason (pytorch/serve#1010, #849)."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions

from marsmith.lint.findings import Finding
from marsmith.lint.modules import Modules, is_never_run, last_name

# What a TorchServe server brings: its own dependencies, and what its requirements/common.txt and torch_linux.txt add.
WORKER_MODULES = frozenset(
    {"PIL", "captum", "model_archiver", "numpy", "packaging", "psutil", "requests", "torch", "torchaudio", "torchtext"}
    | {"torchvision", "ts", "yaml"}
)
# Packages that are imported by another name than they are installed by, where that cannot be looked up here.
IMPORT_NAMES = {
    "beautifulsoup4": "bs4",
    "faiss-cpu": "faiss",
    "onnxruntime-gpu": "onnxruntime",
    "opencv-contrib-python": "cv2",
    "opencv-contrib-python-headless": "cv2",
    "opencv-python": "cv2",
    "opencv-python-headless": "cv2",
    "pillow": "PIL",
    "pillow-simd": "PIL",
    "protobuf": "google",
    "pycryptodome": "Crypto",
    "pymupdf": "fitz",
    "python-dateutil": "dateutil",
    "python-dotenv": "dotenv",
    "python-json-logger": "pythonjsonlogger",
    "pyyaml": "yaml",
    "scikit-image": "skimage",
    "scikit-learn": "sklearn",
}
CATCHING = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
# An `if` that asks one of these chooses between modules that are not all there.
CONDITIONS = frozenset({"version_info", "platform", "name", "find_spec", "machine", "system"})
# The archive's folder of what is no code of Marsmith, a recipe's extra files among it.
MODEL = "model"

Import = ast.Import | ast.ImportFrom


@cache
def installed() -> dict[str, frozenset[str]]:
    """Each top-level module that is installed here, with the canonical names of the packages that brought it.

    From the packages' own lists: asking the import system would find the current directory too.
    """
    return {module: frozenset(map(_canonical, names)) for module, names in packages_distributions().items()}


def _canonical(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def provided(requirements: Iterable[str]) -> frozenset[str]:
    """The top-level modules that the packages of these canonical names bring."""
    modules: set[str] = set()
    for name in requirements:
        known = {module for module, packages in installed().items() if name in packages}
        modules |= known or {IMPORT_NAMES.get(name, name.replace("-", "_").replace(".", "_"))}
    return frozenset(modules)


def lint_imports(
    modules: Modules, requirements: Iterable[str], roots: Iterable[str], *, recipe: bool = False
) -> Iterator[Finding]:
    """A finding for each import that neither the archive, nor this environment, nor a requirement resolves.

    `requirements` are canonical package names, `roots` the members that the worker imports itself. An error is what
    runs when the worker loads, and everything in the roots; a warning is what may never run. An import that the code
    expects to fail is left alone. With `recipe`, the remedy is said in a recipe's keys.
    """
    known = frozenset(sys.stdlib_module_names) | installed().keys() | WORKER_MODULES | provided(requirements)
    roots = frozenset(roots)
    loaded = _loaded(modules, roots)
    for member, tree in modules.parsed.items():
        certain = set(expected_imports(tree, at_load=member not in roots)) if member in loaded else set()
        found: dict[tuple[str, bool], Import] = {}
        for node in sorted(expected_imports(tree), key=lambda one: one.lineno):
            for name in _unresolved(node, member, modules, known):
                found.setdefault((name, node in certain), node)
        for (name, is_certain), node in found.items():
            yield Finding(
                "M107" if is_certain else "M111",
                f"{member}:{node.lineno}",
                f"The import of {name} does not resolve.",
                _remedy(node, name, modules, recipe=recipe),
            )


def _remedy(node: Import, name: str, modules: Modules, *, recipe: bool) -> str:
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
    return "Pack the module, require its package in requirements.txt, or correct the name."


def unrequired(modules: Modules, requirements: Iterable[str], roots: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each module that is installed here, but that neither a server nor a requirement brings, with where it is needed.

    The arguments are those of `lint_imports`.
    """
    roots = frozenset(roots)
    brought = frozenset(sys.stdlib_module_names) | WORKER_MODULES | provided(requirements)
    found: dict[str, str] = {}
    for member in sorted(_loaded(modules, roots)):
        for node in expected_imports(modules.parsed[member], at_load=member not in roots):
            if isinstance(node, ast.ImportFrom) and node.level:
                continue
            for name in _targets(node, member)[: 1 if isinstance(node, ast.ImportFrom) else None]:
                top = name.partition(".")[0]
                if top in installed() and top not in brought and top not in modules:
                    found.setdefault(top, f"{member}:{node.lineno}")
    yield from sorted(found.items())


def _loaded(modules: Modules, roots: Iterable[str]) -> set[str]:
    """The members that are imported, one by the other, before a worker is ready."""
    loaded: set[str] = set()
    pending = list(roots)
    while pending:
        member = pending.pop()
        if member in loaded or member not in modules.parsed:
            continue
        loaded.add(member)
        for node in expected_imports(modules.parsed[member], at_load=True):
            for name in _targets(node, member):
                parts = name.split(".")
                packages = (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))
                pending += [modules.members[package] for package in packages if package in modules.members]
    return loaded


def _targets(node: Import, member: str) -> list[str]:
    """All that a statement may import: the module that it names, and what could be a module in it."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    source = source_of(node, member)
    return [source, *(f"{source}.{alias.name}" for alias in node.names)] if source else []


def source_of(node: ast.ImportFrom, member: str) -> str | None:
    """The whole name of the module that a `from` names; None when it leaves the file's package."""
    if not node.level:
        return node.module
    parents = member.split("/")[:-1]
    kept = len(parents) - node.level + 1
    return ".".join([*parents[:kept], *filter(None, [node.module])]) if kept > 0 else None


def expected_imports(tree: ast.Module, *, at_load: bool = False) -> Iterator[Import]:
    """The imports that the code relies on, in no order; `at_load` only those outside functions."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not (at_load and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            stack.extend(_relied_on(node))


def _relied_on(node: ast.AST) -> Iterable[ast.AST]:
    """The children of a node whose failing imports would fail the module."""
    if isinstance(node, ast.Try | ast.TryStar) and any(_catches(handler.type) for handler in node.handlers):
        return node.finalbody
    if isinstance(node, ast.If) and is_never_run(node.test):
        return node.orelse
    if isinstance(node, ast.If) and _chooses(node.test):
        return []
    if isinstance(node, ast.With | ast.AsyncWith) and any(_suppresses(item.context_expr) for item in node.items):
        return []
    return ast.iter_child_nodes(node)


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
