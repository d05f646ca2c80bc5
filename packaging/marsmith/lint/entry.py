"""M101, M102, M104 to M106: the handler, found and counted the way ts/model_loader.py of TorchServe 0.12 does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from marsmith.lint.findings import Finding
from marsmith.lint.modules import Modules, bindings, classes
from marsmith.lint.tree import Tree
from marsmith.mar.members import MANIFEST

# ts/torch_handler: what the manifest may name without a file. Those of the first group load `serializedFile`.
LOADING_HANDLERS = (
    "base_handler",
    "text_classifier",
    "image_classifier",
    "object_detector",
    "image_segmenter",
    "dali_image_classifier",
)
BUILT_IN_HANDLERS = (*LOADING_HANDLERS, "vllm_handler", "trt_llm_handler")
# What TorchServe calls an entry class's methods with, `self` included.
METHODS = {"handle": ("data", "context"), "initialize": ("context",)}
# What to do where TorchServe cannot tell the entry point.
ENTRY_REMEDY = "Leave one class or one function handle(data, context), and import the rest from another module."
ENTRY_REMEDY_OF_RECIPE = (
    "Leave the handler's class alone: put others into a file beside it, such as NAME.py, name that in the recipe's key "
    "extra_files, and import it as model.NAME."
)


@dataclass(frozen=True, slots=True)
class Handler:
    """The manifest's handler: the dotted name that is imported, and the function that is called, if it names one."""

    text: str
    module: str
    function: str | None

    @classmethod
    def of(cls, text: str) -> Handler:
        """Take `dir/file.py:function` apart as TorchServe does: the folder is dropped, `.py` too."""
        file, colon, function = text.partition(":")
        module = file.removesuffix(".py").split("/")[-1]
        return cls(text, module, function if colon else None)

    def find(self, modules: Modules) -> str | None:
        """The member that is imported; None when none is. Only with a function is the handler's folder on the path."""
        folder = self.text.partition(":")[0].rpartition("/")[0].replace("/", ".")
        names = [self.module] if self.function is None else [f"{folder}.{self.module}".lstrip("."), self.module]
        return next((modules.members[name] for name in names if name in modules.members), None)

    def is_built_in(self, modules: Modules) -> bool:
        """Whether TorchServe takes one of its own: the archive's come first."""
        return self.text in BUILT_IN_HANDLERS and self.find(modules) is None


def lint_entry(tree: Tree, modules: Modules, handler: Handler, *, recipe: bool = False) -> Iterator[Finding]:
    """What is wrong with the handler's module and its entry point. With `recipe`, the remedy names a recipe's keys."""
    if handler.is_built_in(modules):
        return
    member = handler.find(modules)
    if member is None:
        yield _missing(tree, handler)
    elif member in modules.parsed:
        yield from _entry_point(modules.parsed[member], handler, member, recipe=recipe)


def _missing(tree: Tree, handler: Handler) -> Finding:
    if "." in handler.module and f"{handler.module}.py" in tree.sizes:
        return Finding(
            "M102",
            f"{handler.module}.py",
            f"Python reads the handler's name {handler.module} as a module in a package.",
            "Name the file without dots, such as handler.py.",
        )
    file = f"{handler.module.replace('.', '/')}.py"
    inside = [name for name in tree.files if name.endswith(f"/{file}")]
    remedy = f"Move {inside[0]} to the archive's root." if inside else f"Pack {file} at the archive's root."
    built_in = f" {handler.module} of TorchServe is named without .py." if handler.module in BUILT_IN_HANDLERS else ""
    return Finding("M101", MANIFEST, f"The handler {handler.text} is not at the archive's root.{built_in}", remedy)


def _entry_point(module: ast.Module, handler: Handler, where: str, *, recipe: bool) -> Iterator[Finding]:
    """pytorch/serve#463, #1260."""
    bound = bindings(module)
    name = handler.function or "handle"
    if name in bound:
        yield from _call(bound[name], name, ("data", "context"), where)
        return
    if "*" in bound:
        return
    if handler.function is not None:
        yield Finding(
            "M104",
            where,
            f"The module does not define {name}, which the manifest names.",
            f"Define a function {name}(data, context), or name another one.",
        )
        return
    found = classes(module)
    if len(found) != 1:
        listed = f"the classes {', '.join(sorted(found))}" if found else "neither a function handle nor a class"
        yield Finding(
            "M105",
            where,
            f"TorchServe cannot tell the entry point: the module defines {listed}.",
            ENTRY_REMEDY_OF_RECIPE if recipe else ENTRY_REMEDY,
        )
        return
    ((name, node),) = found.items()
    yield from _entry_class(name, node, where)


def _entry_class(name: str, node: ast.ClassDef | None, where: str) -> Iterator[Finding]:
    """The class's own methods; what it inherits from elsewhere is not known."""
    bound = bindings(node) if node else {}
    if node and (node.decorator_list or "__getattr__" in bound):
        return
    bare = node is None or not (node.bases or node.keywords)
    for method, arguments in METHODS.items():
        if method in bound:
            yield from _call(bound[method], f"{name}.{method}", ("self", *arguments), where)
        elif bare:
            yield Finding(
                "M106",
                where,
                f"The entry class {name} has no method {method}.",
                f"Define {method}(self, {', '.join(arguments)}).",
            )
    if "__init__" in bound:
        yield from _call(bound["__init__"], f"{name}.__init__", ("self",), where)


def _call(node: ast.AST, name: str, arguments: tuple[str, ...], where: str) -> Iterator[Finding]:
    """A finding when a function, defined here and undecorated, cannot take these positional arguments."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.decorator_list:
        return
    taken = node.args
    positional = len(taken.posonlyargs) + len(taken.args)
    needed = positional - len(taken.defaults)
    if needed <= len(arguments) and (taken.vararg or len(arguments) <= positional) and None not in taken.kw_defaults:
        return
    yield Finding(
        "M106",
        f"{where}:{node.lineno}",
        f"TorchServe calls {name} with {', '.join(arguments)}, which it does not take.",
        f"Define it as {name.rpartition('.')[2]}({', '.join(arguments)}).",
    )
