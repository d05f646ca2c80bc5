"""The command line. Each command is thin; heavy imports wait until one runs, so that --help is instant."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from marsmith.digest import file_sha256
from marsmith.errors import MarsmithError

if TYPE_CHECKING:
    from marsmith.server import Server

app = typer.Typer(
    help="Build TorchServe archives that can be trusted, serve them and ask them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]
Port = Annotated[int, typer.Option(help="First of the five ports to use.", min=1, max=65531)]
Url = Annotated[str, typer.Option(help="The server's inference address.")]
DEFAULT_URL = "http://127.0.0.1:8080"


def main() -> None:
    """Run the command line: an expected error is one sentence on standard error and exit code 1.

    SIGTERM and SIGHUP end a command as Ctrl-C does, so that servers and half-written files go with it.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        app()
    except MarsmithError as error:
        err.print(f"[bold red]error:[/] {_escape(str(error))}", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _dump(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")


@contextmanager
def _status() -> Iterator[Any]:
    """A spinner on standard error; yields the function that says what is being done."""
    with err.status("starting") as status:
        yield lambda step: status.update(_escape(step))


@app.command()
def build(
    recipe: Annotated[Path, typer.Argument(help="A recipe.toml, or the directory that holds one.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory to write NAME.mar into.")] = Path(
        "model-store"
    ),
    as_json: AsJson = False,
) -> None:
    """Build an archive from a recipe."""
    from marsmith.build import build as build_archive

    with _status() as progress:
        built = build_archive(recipe, output, progress)
        sha256 = file_sha256(built.path)
    if as_json:
        _dump(
            {
                "path": built.path,
                "size": built.size,
                "sha256": sha256,
                "members": built.members,
                "parity": built.parity,
            }
        )
    else:
        _print_built(built, sha256)


def _print_built(built: Any, sha256: str) -> None:
    from marsmith.show import size

    out.print(
        f"built {built.path} ({size(built.size)}, {built.members} members, "
        f"logits within {built.parity:.1e} of the checkpoint's)\nsha256 {sha256}",
        soft_wrap=True,
    )


@app.command()
def inspect(
    archive: Annotated[Path, typer.Argument(help="A .mar archive.")],
    as_json: AsJson = False,
) -> None:
    """Show what an archive holds."""
    import dataclasses

    from marsmith.inspection import inspect as read_card
    from marsmith.show import card

    details = read_card(archive)
    if as_json:
        _dump(dataclasses.asdict(details))
    else:
        out.print(card(details))


@app.command()
def serve(
    archives: Annotated[list[Path], typer.Argument(help="The archives to serve.")],
    port: Port = 8080,
    token: Annotated[bool, typer.Option(help="Ask clients for TorchServe's tokens.")] = False,
) -> None:
    """Serve archives on this machine with a real TorchServe until Ctrl-C."""
    from marsmith.server import Ports, Server

    with Server(archives, Ports(port), token=token) as server:
        _start(server)
        if token:
            err.print(f"TorchServe's tokens, which expire after an hour: {server.key_file}", soft_wrap=True)
        _serve(server)


def _start(server: Server) -> None:
    with _status() as progress:
        progress("starting TorchServe")
        server.start()
        server.wait_ready(progress=progress)


def _serve(server: Server) -> None:
    """Serve until Ctrl-C or SIGTERM. Raises ServerError when the server ends by itself."""
    from marsmith.errors import ServerError

    names = ", ".join(server.archives)
    err.print(f"Serving {names} at {server.ports.url}. Ctrl-C stops.", soft_wrap=True)
    try:
        code = server.wait()
    except KeyboardInterrupt:
        return
    raise ServerError(f"TorchServe ended by itself with exit code {code}: start it again.")


@app.command()
def predict(
    model: Annotated[str, typer.Argument(help="The model's name on the server.")],
    images: Annotated[list[Path] | None, typer.Argument(help="Image files.")] = None,
    file: Annotated[Path | None, typer.Option(help="A text file, one text a line.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write JSON lines to this file.")] = None,
    url: Url = DEFAULT_URL,
    token: Annotated[str | None, typer.Option(envvar="MARSMITH_TOKEN", help="The server's inference token.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a running server about image files or the lines of a text file.

    An input that fails is reported in its place and the rest go on; then the exit code is 1.
    """
    from marsmith.predict import predict_to

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    failed = predict_to(model, images or [], file, output, url, headers, as_json=as_json, out=out, err=err)
    if failed:
        raise typer.Exit(1)


@app.command()
def demo(
    models: Annotated[Path, typer.Option(help="Where the starter checkpoints are.")] = Path("models"),
    store: Annotated[Path, typer.Option(help="Where the archives go.")] = Path("model-store"),
    port: Port = 8080,
    once: Annotated[bool, typer.Option("--once", help="Stop after the answers.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build both starter archives, serve them, ask them, and go on serving.

    The exit code is 0 only when every answer is the one that the recipes expect.
    """
    import dataclasses

    from marsmith.demo import ask, build_starters, check, next_steps
    from marsmith.server import Ports, Server
    from marsmith.show import answers_table

    Ports(port).check_free()
    with _status() as progress:
        archives = [(built, file_sha256(built.path)) for built in build_starters(models, store, progress)]
    for built, sha256 in archives if not as_json else []:
        _print_built(built, sha256)
    with Server([built.path for built, _ in archives], Ports(port)) as server:
        _start(server)
        answers = list(ask(models, server))
        if as_json:
            built_json = [{**dataclasses.asdict(built), "sha256": sha256} for built, sha256 in archives]
            _dump({"archives": built_json, "answers": [{**dataclasses.asdict(a), "right": a.right} for a in answers]})
        else:
            out.print(answers_table(answers))
        check(answers)
        if not once:
            err.print(next_steps(models, server), soft_wrap=True, markup=False)
            _serve(server)
