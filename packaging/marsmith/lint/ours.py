"""M5: the files that Marsmith's own archives have beside what TorchServe reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from marsmith.ground.limits import MAX_GOLDEN_BYTES
from marsmith.ground.serving import Serving
from marsmith.lint.findings import Finding
from marsmith.lint.tree import Tree
from marsmith.mar.members import DIGESTS, GOLDEN, SERVING


def lint_ours(tree: Tree, manifest: Mapping[str, Any]) -> list[Finding]:
    """What is wrong with serving.json, wherever it lies, and what an archive of Marsmith lacks."""
    return [*_lint_serving(tree), *(_lint_missing(tree) if "marsmith" in manifest and tree.sealed else ())]


def _lint_serving(tree: Tree) -> Iterator[Finding]:
    if SERVING not in tree.sizes:
        return
    text = tree.text(SERVING)
    remedy = "Build the archive again with marsmith build, which writes it."
    if text is None:
        yield Finding("M501", SERVING, "It is no UTF-8 text that can be read.", remedy)
        return
    try:
        serving = Serving.model_validate_json(text)
    except ValidationError as error:
        details = error.errors(include_input=False, include_url=False, include_context=False)
        places = sorted({".".join(map(str, one["loc"])) or "the whole file" for one in details})
        yield Finding("M501", SERVING, f"These parts are not valid: {', '.join(places)}.", remedy)
        return
    if not serving.labels and (serving.text or serving.image):
        yield Finding("M502", SERVING, "It has no labels, so no answer can be named.", "Give the recipe labels.")


def _lint_missing(tree: Tree) -> Iterator[Finding]:
    if SERVING not in tree.sizes:
        yield Finding("M501", SERVING, "It is missing, and the handlers need it.", "Build the archive again.")
    if DIGESTS not in tree.sizes:
        yield Finding(
            "M503", DIGESTS, "Nothing can be verified without it.", "Build the archive again with marsmith build."
        )
    if not _has_golden_requests(tree):
        yield Finding(
            "M504",
            GOLDEN,
            "No request is recorded whose answer a server must repeat.",
            "Build the archive again with marsmith build.",
        )


def _has_golden_requests(tree: Tree) -> bool:
    try:
        golden = json.loads(tree.text(GOLDEN, MAX_GOLDEN_BYTES) or "null")
    except (ValueError, RecursionError):
        return False
    requests = golden.get("requests") if isinstance(golden, dict) else None
    return isinstance(requests, list) and bool(requests)
