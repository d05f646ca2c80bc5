"""A small sound archive of somebody's own, and what lint says when some of it is other than it should be."""

import json
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from marsmith.lint import lint
from marsmith.lint.findings import Finding
from marsmith.lint.tree import Tree

HANDLER = """
class Handler:
    def initialize(self, context):
        self.ready = True

    def handle(self, data, context):
        return [len(data)] * len(data)
"""
CONFIG = {
    "minWorkers": 1,
    "maxWorkers": 1,
    "batchSize": 4,
    "maxBatchDelay": 10,
    "responseTimeout": 60,
    "startupTimeout": 120,
}
MODEL = {
    "modelName": "mine",
    "handler": "handler.py",
    "modelVersion": "1.0",
    "configFile": "model-config.yaml",
    "requirementsFile": "requirements.txt",
}
MANIFEST = {"runtime": "python", "model": MODEL, "archiverVersion": "0.12.0"}
SOUND: dict[str, bytes] = {
    "MAR-INF/MANIFEST.json": json.dumps(MANIFEST).encode(),
    "handler.py": HANDLER.encode(),
    "model-config.yaml": json.dumps(CONFIG).encode(),
    "requirements.txt": b"numpy==2.4.6\n",
}


def tree(members: Mapping[str, bytes | str]) -> Tree:
    """The members as they would be packed."""
    return Tree.of({PurePosixPath(name): _bytes(content) for name, content in members.items()})


def manifest(**model: Any) -> str:
    """The sound manifest with other values in its model section; None takes a key out."""
    merged = {key: value for key, value in {**MODEL, **model}.items() if value is not None}
    return json.dumps({**MANIFEST, "model": merged})


def lint_with(members: Mapping[str, bytes | str], **model: Any) -> list[Finding]:
    """What lint finds in the sound archive with these members laid over, and these values in its manifest."""
    return lint(tree({**SOUND, "MAR-INF/MANIFEST.json": manifest(**model), **members}))


def codes(findings: Iterable[Finding]) -> list[str]:
    """The findings' codes, each once, sorted."""
    return sorted({one.code for one in findings})


def only(findings: Iterable[Finding], code: str) -> Finding:
    """The one finding of a code."""
    (finding,) = [one for one in findings if one.code == code]
    return finding


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content
