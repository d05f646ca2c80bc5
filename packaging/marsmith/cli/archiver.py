"""The command that stands in for torch-model-archiver."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from marsmith.cli.argparsing import likened
from marsmith.cli.console import AsJson, dump, escape, out, print_warnings

# What torch-model-archiver does not have: a beginning that fits one of its options never means these.
OWN_OPTIONS = ("--assume", "--lint", "--json")
COMMAND: dict[str, Any] = {
    "cls": likened(*OWN_OPTIONS),
    "context_settings": {"help_option_names": ["--help", "-h"]},
}


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
    assume: Annotated[
        list[str],
        typer.Option(help="A module or package that the server has and this machine has not. May be repeated."),
    ] = [],  # noqa: B006 - typer reads it, nobody writes it
    lint: Annotated[
        Literal["refuse", "warn"], typer.Option(help="What to do about an archive that lint finds an error in.")
    ] = "refuse",
    as_json: AsJson = False,
) -> None:
    """Pack a handler and its files as torch-model-archiver does, with the same flags.

    What TorchServe surely fails with is refused instead of packed.
    """
    import dataclasses

    from marsmith.archiver import archive as write_archive
    from marsmith.ground.wording import size

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
        assume=assume,
        lint=lint,
    )
    print_warnings(archived.warnings)
    if as_json:
        dump(dataclasses.asdict(archived))
    else:
        what = f"wrote {archived.path} ({size(archived.size)}, {archived.members} members)"
        out.print(escape(what), soft_wrap=True)
