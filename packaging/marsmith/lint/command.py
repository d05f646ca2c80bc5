"""What `marsmith lint` does with the recipe or archive that it is given."""

from __future__ import annotations

import zipfile
from pathlib import Path

from marsmith.ground.files import is_file
from marsmith.ground.progress import Progress
from marsmith.lint import lint, lint_recipe
from marsmith.lint.findings import Finding
from marsmith.lint.index import lint_index
from marsmith.lint.manifest import read_manifest
from marsmith.lint.requirements import requirements_member
from marsmith.lint.tree import archive_tree
from marsmith.recipe.manifest import requirements
from marsmith.recipe.recipe import Recipe


def lint_target(target: Path, progress: Progress, *, offline: bool) -> list[Finding]:
    """The findings of a recipe or an archive; unless `offline`, the package index is asked for aarch64 wheels.

    Raises RecipeError and ArchiveError.
    """
    progress("linting")
    if target.suffix == ".mar" or (is_file(target) and zipfile.is_zipfile(target)):
        with archive_tree(target) as tree:
            findings = lint(tree)
            pins = tree.requirements(requirements_member(tree, read_manifest(tree))) or ""
    else:
        findings = lint_recipe(target)
        pins = requirements(Recipe.load(target)).decode("utf-8")
    if not offline:
        progress("asking the package index for aarch64 wheels")
        findings += lint_index(pins)
    return findings
