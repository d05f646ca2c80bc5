"""What `marsmith lint` does with the recipe or archive that it is given."""

from __future__ import annotations

import zipfile
from pathlib import Path

from marsmith.lint import lint_archive, lint_recipe
from marsmith.lint.findings import Finding
from marsmith.lint.index import lint_index
from marsmith.lint.tree import archive_tree
from marsmith.manifest import REQUIREMENTS_FILE, requirements
from marsmith.progress import Progress
from marsmith.recipe import Recipe


def lint_target(target: Path, progress: Progress, *, offline: bool) -> list[Finding]:
    """The findings of a recipe or an archive; unless `offline`, the package index is asked for aarch64 wheels.

    Raises RecipeError and ArchiveError.
    """
    progress("linting")
    if target.is_file() and (target.suffix == ".mar" or zipfile.is_zipfile(target)):
        findings = lint_archive(target)
        with archive_tree(target) as tree:
            pins = tree.text(REQUIREMENTS_FILE) or ""
    else:
        findings = lint_recipe(target)
        pins = requirements(Recipe.load(target).task).decode("utf-8")
    if not offline:
        progress("asking the package index for aarch64 wheels")
        findings += lint_index(pins)
    return findings
