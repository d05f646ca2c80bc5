"""The command line. Each command is thin; heavy imports wait until one runs, so that --help is instant."""

from __future__ import annotations

import signal
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from marsmith.cli import archiver, archives, deploy, image, serving, trust, tuning
from marsmith.cli.console import err, escape, forgive_encodings, out
from marsmith.errors import MarsmithError
from marsmith.torchserve.failures import FULL, no_room

app = typer.Typer(
    help="Build TorchServe archives that can be trusted, serve them and ask them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:
    if value:
        out.print(f"marsmith {version('marsmith')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Take the options that come before a command."""


app.command()(archives.build)
app.command(**archiver.COMMAND)(archiver.archive)
for command in (
    trust.lint,
    trust.verify,
    trust.sign,
    trust.keygen,
    archives.inspect,
    archives.diff,
    tuning.tune,
    serving.serve,
    serving.predict,
    serving.explain,
    serving.demo,
):
    app.command()(command)
app.command("test")(trust.replay)
app.add_typer(image.app, name="image")
app.add_typer(deploy.app, name="deploy")


def main() -> None:
    """Run the command line: an expected error is one sentence on standard error and exit code 1.

    SIGTERM and SIGHUP end a command as Ctrl-C does, so that servers and half-written files go with it.
    """
    forgive_encodings()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        app()
    except MarsmithError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(1)
    except OSError as error:
        # What a command writes for itself, such as temporary files: its outputs have sentences of their own.
        if error.errno not in FULL:
            raise
        where = Path(error.filename).parent if error.filename else tempfile.gettempdir()
        err.print(f"[bold red]error:[/] {escape(no_room(where, str(error.strerror)))}", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
