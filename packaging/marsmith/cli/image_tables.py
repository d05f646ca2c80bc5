"""An image's report as tables for people."""

from __future__ import annotations

import re

from rich.markup import escape
from rich.table import Table

from marsmith.ground.untrusted import printable
from marsmith.ground.wording import size
from marsmith.image.build import Built
from marsmith.image.results import LayerSize, Report

MARKS = {"ok": "✓", "wrong": "[red]✗[/]", "note": "—"}
# Of many files these are enough to see what they have in common; --json has them all.
SHOWN_FILES = 8
SHOWN_STEP_CHARACTERS = 80
DIGEST, SHOWN_DIGITS = re.compile(r"\b[0-9a-f]{64}\b"), 12
# "|1 NAME=VALUE /bin/sh -c ", as docker and buildah note what a step was run with.
SHELL = re.compile(r"^(?:\|\d+ .*?)?/bin/sh -c (?:#\(nop\) )?")


def results_table(report: Report) -> Table:
    """Each check, whether it is passed, and what it found."""
    title = f"{report.image}: {report.format} format, {report.architecture}, {report.digest}"
    table = Table("check", "", "found", title=escape(printable(title)), title_justify="left")
    for one in report.results:
        more = len(one.where) - SHOWN_FILES
        files = [*one.where[:SHOWN_FILES], *([f"and {more} more"] if more > 0 else [])]
        table.add_row(one.check, MARKS[one.status], escape("\n".join([one.message, *files])))
    return table


def layers_table(report: Report) -> Table:
    """Each layer's size and what made it."""
    table = Table("layer", "compressed", "unpacked", "made by", title="Size by layer", title_justify="left")
    for column in table.columns[:3]:
        column.justify = "right"
    for number, layer in enumerate(report.layers, 1):
        table.add_row(str(number), _size(layer.compressed), size(layer.unpacked), escape(_step(layer)))
    table.add_row("all", _size(report.compressed), size(report.unpacked), "", style="bold")
    return table


def _size(count: int | None) -> str:
    """Of layers that the file holds as they are, nothing is known of their size compressed."""
    return "—" if count is None else size(count)


def _step(layer: LayerSize) -> str:
    """The step without the build arguments and the shell before it; of digests their beginning."""
    text = DIGEST.sub(lambda digest: digest[0][:SHOWN_DIGITS], SHELL.sub("", " ".join(layer.created_by.split())))
    return printable(text if len(text) <= SHOWN_STEP_CHARACTERS else f"{text[:SHOWN_STEP_CHARACTERS]}…")


def built_text(built: Built) -> str:
    """What was built, where it is, and what another build may not repeat."""
    models = ", ".join(built.models) or "none: mount them at run time"
    lines = [f"built {built.tag} for {built.platform} with {built.tool}, models: {models}"]
    if built.output:
        lines.append(f"wrote {built.output} ({size(built.size)}, {built.digest})")
    if built.sbom:
        lines.append(f"wrote {built.sbom} (CycloneDX 1.6)")
    lines += [f"not reproducible: {note}" for note in built.notes]
    return "\n".join(lines)
