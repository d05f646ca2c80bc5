"""M1: the code in an archive. It is parsed and never run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marsmith.lint.entry import Handler, lint_entry
from marsmith.lint.evidence import Evidence
from marsmith.lint.findings import Finding
from marsmith.lint.importing import collect
from marsmith.lint.imports import lint_imports, lint_servers
from marsmith.lint.loading import lint_loading
from marsmith.lint.manifest import named
from marsmith.lint.metrics import lint_metrics
from marsmith.lint.modules import Modules, parse
from marsmith.lint.shadows import lint_shadows
from marsmith.lint.tree import Tree

# TorchServe's runtime for handlers that are shared libraries, which no Python imports.
LSP = "LSP"


def lint_code(tree: Tree, manifest: Mapping[str, Any]) -> list[Finding]:
    """What is wrong with the handler, the modules beside it, their imports and their names."""
    parsed, findings = parse(tree)
    modules = Modules.of(tree, parsed)
    text = named(manifest, "handler")
    built_in = None
    roots = [named(manifest, "modelFile")]
    recipe = "marsmith" in manifest  # built by one, which is what can be corrected
    if text and manifest.get("runtime") != LSP:
        handler = Handler.of(text)
        roots.append(handler.find(modules) or "")
        built_in = handler.text if handler.is_built_in(modules) else None
        findings += lint_entry(tree, modules, handler, recipe=recipe)
        findings += lint_loading(tree, manifest, modules, handler)
    imports = collect(parsed)
    evidence = Evidence.of(tree, manifest, modules, imports)
    findings += lint_imports(modules, imports, evidence, roots, recipe=recipe)
    findings += lint_servers(modules, imports, evidence, built_in)
    return [*findings, *lint_shadows(modules), *lint_metrics(modules)]
