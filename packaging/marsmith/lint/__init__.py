"""Lint: what would fail or surprise when TorchServe loads an archive, found before it does.

The rules are in `findings`; this package imports what they need only when it is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from marsmith.lint.findings import Finding
    from marsmith.lint.tree import Tree
    from marsmith.recipe.recipe import Recipe

__all__ = ["lint", "lint_archive", "lint_recipe"]


def lint(tree: Tree) -> list[Finding]:
    """All findings about the members of an archive that exists or is about to be packed, by code, then by place.

    Nothing of the archive is imported or run, and no member is read further than marsmith.ground.limits says.
    """
    from marsmith.lint.code import lint_code
    from marsmith.lint.config import lint_config
    from marsmith.lint.manifest import lint_manifest, read_manifest
    from marsmith.lint.members import lint_members, too_many
    from marsmith.lint.ours import lint_ours
    from marsmith.lint.requirements import lint_requirements

    findings = lint_members(tree)
    if not too_many(tree):
        manifest = read_manifest(tree)
        findings += lint_manifest(tree)
        for rules in (lint_code, lint_config, lint_requirements, lint_ours):
            findings += rules(tree, manifest)
    return sorted(findings, key=lambda one: (one.code, one.where, one.message))


def lint_archive(path: Path) -> list[Finding]:
    """All findings about an archive that exists. Raises ArchiveError for what is no zip file."""
    from marsmith.lint.tree import archive_tree

    with archive_tree(path) as tree:
        return lint(tree)


def lint_recipe(source: Path | Recipe) -> list[Finding]:
    """All findings about a recipe, its checkpoint and samples, and what can be known of the archive before its export.

    Raises RecipeError.
    """
    from marsmith.lint.recipe import lint_recipe as lint_one

    return lint_one(source)
