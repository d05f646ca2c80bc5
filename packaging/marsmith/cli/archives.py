"""Commands that make archives and look into them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from marsmith.cli.console import Archive, AsJson, dump, err, escape, out, print_warnings, status
from marsmith.ground.files import file_sha256


def build(
    recipe: Annotated[Path, typer.Argument(help="A recipe.toml, or the directory that holds one.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory to write into.")] = Path("model-store"),
    target: Annotated[
        list[str], typer.Option("--target", help="What to build: mar, sagemaker, djl or oci. May be repeated.")
    ] = ["mar"],  # noqa: B006 - typer reads it, nobody writes it
    as_json: AsJson = False,
) -> None:
    """Build an archive from a recipe, or the same model for another home."""
    from marsmith.builder import build as build_archive
    from marsmith.ground.wording import size

    with status() as progress:
        built = build_archive(recipe, output, progress, target)
        digests = {one.path: file_sha256(one.path) for one in built.artefacts}
    print_warnings(built.warnings)
    if built.note:
        err.print(f"[yellow]note:[/] {escape(built.note)}", soft_wrap=True)
    if as_json:
        dump(
            {
                "path": built.path,
                "size": built.size,
                "sha256": digests[built.path],
                "artefacts": [
                    {"target": one.target, "path": one.path, "size": one.size, "sha256": digests[one.path]}
                    for one in built.artefacts
                ],
                "members": built.members,
                "golden": built.golden,
                "engine": built.engine,
                "note": built.note,
                "parity": built.parity,
                "accuracy": built.accuracy.model_dump(mode="json") if built.accuracy else None,
            }
        )
    else:
        print_built(built, digests[built.path])
        for one in built.artefacts[1:]:
            out.print(f"built {one.path} ({size(one.size)})\nsha256 {digests[one.path]}", soft_wrap=True, markup=False)


def print_built(built: Any, sha256: str) -> None:
    """Say what was built."""
    from marsmith.cli.tables import accuracy
    from marsmith.ground.wording import size

    logits = (
        "no network"
        if built.parity is None
        else f"logits in {built.engine} within {built.parity:.1e} of the checkpoint's"
    )
    if built.accuracy:
        logits += f", in int8 {accuracy(built.accuracy.model_dump())}"
    out.print(
        f"built {built.path} ({size(built.size)}, {built.members} members, {logits}, {built.golden} golden requests "
        f"answered)\nsha256 {sha256}",
        soft_wrap=True,
        markup=False,
    )


def inspect(archive: Archive, as_json: AsJson = False) -> None:
    """Show what an archive holds."""
    import dataclasses

    from marsmith.cli.tables import card
    from marsmith.inspection import inspect as read_card

    details = read_card(archive)
    if as_json:
        dump(dataclasses.asdict(details))
    else:
        out.print(card(details))


def diff(
    before: Archive,
    after: Archive,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 when they differ.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what changed between two archives, by meaning and by member."""
    import dataclasses

    from marsmith.cli.tables import changes_table
    from marsmith.diff import diff as compare

    changes = compare(before, after)
    if as_json:
        dump([dataclasses.asdict(change) for change in changes])
    else:
        out.print(changes_table(changes) if changes else "no difference")
    if changes and exit_code:
        raise typer.Exit(1)
