"""M110: weights that BaseHandler.initialize of TorchServe 0.12 (ts/torch_handler/base_handler.py) can load."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from marsmith.ground.placeholders import instead_of_data, placeholder
from marsmith.lint.entry import LOADING_HANDLERS, Handler
from marsmith.lint.findings import Finding
from marsmith.lint.manifest import named
from marsmith.lint.modules import Modules, classes, last_name
from marsmith.lint.pickles import kind_of
from marsmith.lint.tree import Tree

# With a model file it is a state dict of any name.
SUFFIXES_WITHOUT_MODEL_FILE = (".pt", ".onnx", ".so")
VOCABULARY = "source_vocab.pt"
BASE_CLASSES = frozenset(
    {"BaseHandler", "VisionHandler", "TextHandler", "TextClassifier", "ImageClassifier", "ObjectDetector"}
    | {"ImageSegmenter", "DALIHandler", "DALIImageClassifier"}
)


def lint_loading(tree: Tree, manifest: Mapping[str, Any], modules: Modules, handler: Handler) -> Iterator[Finding]:
    """What is wrong with the serialized file and the model file, when it is TorchServe that loads them."""
    weights, model_file = named(manifest, "serializedFile"), named(manifest, "modelFile")
    if weights in tree.sizes:
        yield from _placeholder(tree, weights)
    if not _loads(handler, modules):
        return
    if model_file:
        yield from _model_file(modules, model_file)
    if weights in tree.sizes:
        yield from _weights(weights, tree.head(weights) or b"", with_model_file=bool(model_file))
    elif not weights and not model_file:
        yield _finding(
            handler.text,
            "The handler loads a serialized file, and the manifest names none.",
            "Name it as serializedFile.",
        )
    if handler.text == "text_classifier" and VOCABULARY not in tree.sizes:
        yield _finding(handler.text, f"text_classifier needs {VOCABULARY}.", "Pack it as an extra file.")


def _loads(handler: Handler, modules: Modules) -> bool:
    """Whether the handler is one of TorchServe's own, or a subclass that leaves `initialize` to it."""
    if handler.is_built_in(modules):
        return handler.text in LOADING_HANDLERS
    module = modules.parsed.get(handler.find(modules) or "")
    entry = list(classes(module).values()) if module else []
    if len(entry) != 1 or entry[0] is None:
        return False
    overridden = any(isinstance(one, ast.FunctionDef) and one.name == "initialize" for one in entry[0].body)
    return not overridden and any(last_name(base) in BASE_CLASSES for base in entry[0].bases)


def _placeholder(tree: Tree, weights: str) -> Iterator[Finding]:
    """Weights of any name must have content; by its name alone, members.py tells that of most."""
    head, size = tree.head(weights) or b"", tree.sizes[weights]
    kind = instead_of_data(head, size)
    if kind and not placeholder(weights, head, size):
        yield Finding("M413", weights, f"It is {kind.what}.", f"{kind.remedy.capitalize()}.")


def _model_file(modules: Modules, model_file: str) -> Iterator[Finding]:
    if model_file.count(".") != 1:
        yield _finding(model_file, "TorchServe imports it by what stands before its first dot.", "Name it model.py.")
    elif module := modules.parsed.get(model_file):
        found = classes(module)
        if len(found) != 1:
            yield _finding(
                model_file,
                f"The model file defines {len(found)} classes, and TorchServe takes it only with exactly one.",
                "Leave one class, and import the rest from another module.",
            )


def _weights(weights: str, head: bytes, *, with_model_file: bool) -> Iterator[Finding]:
    kind = kind_of(weights, head)
    if with_model_file:
        if kind == "torchscript":
            yield _finding(
                weights, "With a model file it must be a state dict, and it is TorchScript.", "Save state_dict()."
            )
    elif not weights.endswith(SUFFIXES_WITHOUT_MODEL_FILE):
        yield _finding(
            weights,
            f"Without a model file TorchServe loads {', '.join(SUFFIXES_WITHOUT_MODEL_FILE)} only.",
            "Save TorchScript as .pt or ONNX as .onnx, or name a model file.",
        )
    elif weights.endswith(".pt") and kind == "pickle":
        yield _finding(
            weights,
            "Without a model file it must be TorchScript, and it is a pickle.",
            "Save it with torch.jit.save, or name a model file.",
        )


def _finding(where: str, message: str, remedy: str) -> Finding:
    return Finding("M110", where, message, remedy)
