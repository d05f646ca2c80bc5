"""M4: the members of an archive, whatever they are for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from marsmith.ground.limits import MAX_HEAD_BYTES, MAX_MEMBERS, MAX_TEXT_BYTES, MAX_TOTAL_BYTES, MAX_YAML_BYTES
from marsmith.ground.placeholders import placeholder
from marsmith.lint.findings import Finding
from marsmith.lint.names import lint_names
from marsmith.lint.pickles import lint_pickle
from marsmith.lint.secrets import lint_secret
from marsmith.lint.tree import Tree
from marsmith.mar.members import DIGESTS, GOLDEN, MANIFEST, SERVING, SIGNATURE

# The texts that lint parses, and how much of one it takes.
PARSED_BYTES = {".py": MAX_TEXT_BYTES, ".yaml": MAX_YAML_BYTES, ".yml": MAX_YAML_BYTES}

OWN_FILES = (SERVING, MANIFEST, GOLDEN, DIGESTS, SIGNATURE)


def too_many(tree: Tree) -> bool:
    """Whether a tree has more members than are looked into one by one."""
    return len(tree.names) > MAX_MEMBERS


def lint_members(tree: Tree) -> list[Finding]:
    """What is wrong with names, sizes and content of the members; of a tree with too many, only that."""
    if too_many(tree):
        return [_too_much(f"{len(tree.names):,} members", f"{MAX_MEMBERS:,}")]
    findings = list(lint_names(tree.names))
    total = sum(tree.sizes.values())
    if total > MAX_TOTAL_BYTES:
        findings.append(_too_much(f"{total:,} bytes", f"{MAX_TOTAL_BYTES:,}"))
    remedy = "Pack it again with marsmith build or torch-model-archiver."
    findings += (Finding("M411", where, f"{fault}.", remedy) for where, fault in tree.faults.items())
    for name in tree.files:
        findings += _lint_member(tree, name)
    return findings


def _too_much(what: str, limit: str) -> Finding:
    return Finding(
        "M408", "archive", f"The archive unpacks to {what}; the limit is {limit}.", "Pack only what the handler reads."
    )


def _lint_member(tree: Tree, name: str) -> Iterator[Finding]:
    limit = PARSED_BYTES.get(PurePosixPath(name).suffix, MAX_TOTAL_BYTES)
    if tree.sizes[name] > limit:
        yield Finding(
            "M409", name, f"It has more than {limit:,} bytes, and is not checked.", "Move data into a file of its own."
        )
    head = tree.head(name)
    if head is None:
        yield Finding("M410", name, "The member cannot be read.", "Pack the archive again from files that can be read.")
        return
    # What lint reads itself, of Marsmith's own files, is M501 and M504.
    kind = None if name in OWN_FILES else placeholder(name, head, tree.sizes[name])
    if kind:
        yield Finding("M413", name, f"It is {kind.what}.", f"{kind.remedy.capitalize()}.")
    yield from lint_pickle(name, head)
    yield from lint_secret(name, searched(tree, name, head))


def searched(tree: Tree, name: str, head: bytes) -> bytes:
    """What is searched for secrets: the beginning of a text, nothing of what is no text."""
    if b"\0" in head:
        return b""
    return head if len(head) < MAX_HEAD_BYTES else tree.head(name, MAX_TEXT_BYTES) or b""
