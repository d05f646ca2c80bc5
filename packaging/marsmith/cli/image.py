"""Commands that build and check the container image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from marsmith.cli.console import AsJson, Key, RequireSignature, dump, err, escape, out, status

app = typer.Typer(help="Build the ARM64 container image, and check one.", no_args_is_help=True)

ToolName = Annotated[
    Literal["docker", "podman", "buildah"] | None,
    typer.Option(help="What builds and runs images; by default the first of these that works."),
]
Platform = Annotated[str, typer.Option(help="The system and architecture of the image.")]
Lock = Annotated[Path | None, typer.Option(help="Your own lock file instead of Marsmith's.")]


@app.command()
def build(
    archives: Annotated[
        list[Path] | None, typer.Argument(help="Archives to bake in; without any, mount them at run time.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write an OCI archive too; its bill lies beside it.")
    ] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", "-t", help="The image's name: marsmith:VERSION by default.")
    ] = None,
    tool: ToolName = None,
    platform: Platform = "linux/arm64",
    base_image: Annotated[str | None, typer.Option(help="The image to build on, best by its digest.")] = None,
    build_arg: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the Dockerfile; may be repeated.")] = None,
    lock: Lock = None,
    wheels: Annotated[Path | None, typer.Option(help="Install from this directory of wheels, offline.")] = None,
    sbom: Annotated[Path | None, typer.Option(help="Where the bill of materials goes.")] = None,
    key: Key = None,
    require_signature: RequireSignature = False,
    as_json: AsJson = False,
) -> None:
    """Build the image with docker buildx, podman or buildah. Archives are verified before they are baked in."""
    import dataclasses

    from marsmith.cli.image_tables import built_text
    from marsmith.image.build import Options
    from marsmith.image.build import build as build_image

    options = Options(
        archives=archives or [],
        output=output,
        tag=tag,
        tool=tool,
        platform=platform,
        base_image=base_image,
        build_args=build_arg or [],
        lock=lock,
        wheels=wheels,
        sbom=sbom,
        key=key,
        require_signature=require_signature,
    )
    with status() as progress:
        built = build_image(options, progress)
    if as_json:
        dump(dataclasses.asdict(built))
    else:
        out.print(escape(built_text(built)), soft_wrap=True)


@app.command()
def check(
    image: Annotated[str, typer.Argument(help="An OCI or docker archive, or a name in the tool's storage.")],
    archives: Annotated[
        list[Path] | None, typer.Argument(help="Archives to mount for the run, in place of those baked in.")
    ] = None,
    static: Annotated[bool, typer.Option("--static", help="Only look into the image; do not run it.")] = False,
    tool: ToolName = None,
    platform: Platform = "linux/arm64",
    lock: Lock = None,
    env: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the container; may be repeated.")] = None,
    timeout: Annotated[
        int | None,
        typer.Option(help="Seconds that it may take to become ready: 600, or 3600 where its CPU is emulated.", min=1),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look into an image, run it, and replay its archives' golden requests. Exit code 1 when anything is wrong."""
    import dataclasses

    from marsmith.cli.image_tables import layers_table, results_table
    from marsmith.image.check import Options
    from marsmith.image.check import check as check_image

    if any("=" not in one for one in env or []):
        raise typer.BadParameter("write it as NAME=VALUE", param_hint="--env")
    pairs = (one.partition("=") for one in env or [])
    options = Options(
        image=image,
        archives=archives or [],
        tool=tool,
        platform=platform,
        lock=lock,
        static=static,
        environ={name: value for name, _, value in pairs},
        timeout_s=timeout,
    )
    with status() as progress:
        report = check_image(options, progress)
    if as_json:
        dump({**dataclasses.asdict(report), "ok": report.ok})
    else:
        out.print(results_table(report))
        out.print(layers_table(report))
    if not report.ok:
        wrong = sum(one.status == "wrong" for one in report.results)
        err.print(f"{image}: checks that failed: {wrong}", soft_wrap=True, markup=False)
        raise typer.Exit(1)
