"""The command that stands in for torch-model-archiver."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from marsmith.cli.console import AsJson, dump, escape, out, print_warnings


def archive(
    model_name: Annotated[str, typer.Option(help="The model's name, and the archive's before its ending.")],
    handler: Annotated[
        str, typer.Option(help="A Python file, a function in one as FILE:FUNCTION, or one of TorchServe's.")
    ],
    version: Annotated[str, typer.Option("--version", "-v", help="The model's version.")],
    serialized_file: Annotated[str | None, typer.Option(help="Weights: .pt, .pth, .onnx and the like.")] = None,
    model_file: Annotated[str | None, typer.Option(help="The Python file with the class of an eager model.")] = None,
    extra_files: Annotated[
        str | None,
        typer.Option(help="Files, directories (what they hold goes to the root) and globs, comma-separated."),
    ] = None,
    runtime: Annotated[Literal["python", "python3", "LSP"], typer.Option(help="What runs the handler.")] = "python",
    export_path: Annotated[str, typer.Option(help="The directory to write into; it is made when missing.")] = ".",
    archive_format: Annotated[
        Literal["default", "zip-store", "tgz", "no-archive"],
        typer.Option(help="NAME.mar, NAME.mar without compression, NAME.tar.gz, or a directory NAME."),
    ] = "default",
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace what was written before.")] = False,
    requirements_file: Annotated[
        str | None, typer.Option("--requirements-file", "-r", help="A requirements.txt for the worker.")
    ] = None,
    config_file: Annotated[
        str | None, typer.Option("--config-file", "-c", help="The model's configuration, a YAML file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Pack a handler and its files as torch-model-archiver does, with the same flags.

    What TorchServe would stumble over is refused instead of packed.
    """
    import dataclasses

    from marsmith.archiver import archive as write_archive
    from marsmith.show import size

    archived = write_archive(
        model_name=model_name,
        handler=handler,
        version=version,
        serialized_file=serialized_file,
        model_file=model_file,
        extra_files=extra_files or "",
        runtime=runtime,
        export_path=export_path,
        archive_format=archive_format,
        force=force,
        requirements_file=requirements_file,
        config_file=config_file,
    )
    print_warnings(archived.warnings)
    if as_json:
        dump(dataclasses.asdict(archived))
    else:
        what = f"wrote {archived.path} ({size(archived.size)}, {archived.members} members)"
        out.print(escape(what), soft_wrap=True)
