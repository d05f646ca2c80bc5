"""M0: MAR-INF/MANIFEST.json, as TorchServe's frontend (Java, Gson) and its Python worker read it."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from marsmith.ground.values import NAME_PATTERN
from marsmith.lint.findings import Finding
from marsmith.lint.tree import Tree
from marsmith.mar.members import MANIFEST

RUNTIMES = ("python", "python3", "LSP")
# The keys that name a member.
FILE_KEYS = ("serializedFile", "modelFile", "requirementsFile", "configFile")
# What a path segment of a URL may hold as it is (RFC 3986, section 3.3), without "%", which would be decoded.
VERSION = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@-]+")


def read_manifest(tree: Tree) -> dict[str, Any]:
    """MAR-INF/MANIFEST.json; empty where it is missing or no JSON object."""
    text = tree.text(MANIFEST)
    try:
        value = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def model_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest's section `model`; empty where there is none."""
    model = manifest.get("model")
    return model if isinstance(model, dict) else {}


def named(manifest: Mapping[str, Any], key: str) -> str:
    """A text of the manifest's model section; empty where it is missing, or neither a text nor a number.

    A number counts, since Gson reads it as text.
    """
    value = model_of(manifest).get(key)
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def lint_manifest(tree: Tree) -> list[Finding]:
    """What is wrong with the manifest."""
    return list(_findings(tree))


def _findings(tree: Tree) -> Iterator[Finding]:
    where = MANIFEST
    manifest = read_manifest(tree)
    model = model_of(manifest)
    if not model:
        yield Finding(
            "M001",
            where,
            "The manifest is missing or is no JSON object with a section model.",
            "Pack the archive with marsmith build or torch-model-archiver, which write it.",
        )
        return
    for key, what in (("modelName", "the model's name"), ("handler", "the handler")):
        if not named(manifest, key):
            yield Finding("M002", where, f"The manifest lacks {what} ({key}).", f"Give model.{key} a text.")
    if manifest.get("runtime", "python") not in RUNTIMES:
        yield Finding("M003", where, "TorchServe does not know the runtime.", f"Use one of {', '.join(RUNTIMES)}.")
    yield from _routes(manifest)
    for key in FILE_KEYS:
        name = named(manifest, key)
        if key in model and model[key] is not None and posixpath.normpath(name) not in tree.sizes:
            yield Finding(
                "M006",
                where,
                f"The manifest names {name or 'no file'} as {key}, which is not in the archive.",
                "Pack the file, or take the key out of the manifest.",
            )


def _routes(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    name = named(manifest, "modelName")
    if name and not re.fullmatch(NAME_PATTERN, name):
        yield Finding(
            "M004",
            MANIFEST,
            f"TorchServe cannot route the model name {name}.",
            "Use letters, digits, '_', '-' and single dots, beginning with a letter or digit.",
        )
    version = named(manifest, "modelVersion")
    given = model_of(manifest).get("modelVersion") is not None  # without one it is 1.0
    if given and (not VERSION.fullmatch(version) or ".." in version or version == "."):
        yield Finding(
            "M005",
            MANIFEST,
            f"No URL reaches the version {version or '(empty)'}.",
            "Use a version such as 1.0, without spaces, slashes or '..'.",
        )
