"""Commands that serve archives and ask a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marsmith.cli.archives import print_built
from marsmith.cli.console import (
    DEFAULT_URL,
    AsJson,
    Ca,
    Key,
    Port,
    RequireSignature,
    Token,
    Url,
    bearer,
    dump,
    err,
    out,
    status,
)
from marsmith.ground.files import file_sha256

if TYPE_CHECKING:
    from marsmith.torchserve.server import Server


def serve(
    archives: Annotated[list[Path], typer.Argument(help="The archives to serve.")],
    port: Port = 8080,
    token: Annotated[bool, typer.Option(help="Ask clients for TorchServe's tokens.")] = False,
    key: Key = None,
    require_signature: RequireSignature = False,
) -> None:
    """Verify archives, then serve them on this machine with a real TorchServe until Ctrl-C.

    The archives' code runs with your rights: name the --key that must have signed them, or use a container for an
    archive of a stranger.
    """
    from marsmith.torchserve.configuration import Ports
    from marsmith.torchserve.server import Server

    with status() as progress:
        progress("verifying")
        server = Server(archives, Ports(port), token=token, key=key, require_signature=require_signature)
    with server:
        _start(server)
        if token:
            err.print(
                f"TorchServe's tokens, which expire after an hour: {server.key_file}", soft_wrap=True, markup=False
            )
        _serve(server)


def _start(server: Server) -> None:
    with status() as progress:
        progress("starting TorchServe")
        server.start()
        server.wait_ready(progress=progress)


def _serve(server: Server) -> None:
    """Serve until Ctrl-C or SIGTERM. Raises ServerError when the server ends by itself."""
    from marsmith.errors import ServerError

    names = ", ".join(server.archives)
    err.print(f"Serving {names} at {server.ports.url}. Ctrl-C stops.", soft_wrap=True, markup=False)
    try:
        code = server.wait()
    except KeyboardInterrupt:
        return
    raise ServerError(f"TorchServe ended by itself with exit code {code}: start it again.")


def predict(
    model: Annotated[str, typer.Argument(help="The model's name on the server.")],
    images: Annotated[list[Path] | None, typer.Argument(help="Image files.")] = None,
    file: Annotated[Path | None, typer.Option(help="A text file, one text a line.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write JSON lines to this file.")] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Ask a running server about image files or the lines of a text file.

    An input that fails is reported in its place and the rest go on; then the exit code is 1. A server that is busy is
    asked again for a while. Ctrl-C keeps what was answered until then.
    """
    from marsmith.cli.predicting import predict_to

    failed = predict_to(model, images or [], file, output, url, bearer(token), ca=ca, as_json=as_json, out=out, err=err)
    if failed:
        raise typer.Exit(1)


def explain(
    model: Annotated[str, typer.Argument(help="The model's name on the server.")],
    source: Annotated[Path, typer.Argument(help="A text file or an image file.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write an image's overlay as PNG.")] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Ask a running server why it answers a text or an image as it does."""
    from marsmith.cli import explaining as explaining

    with status() as progress:
        progress(f"asking {model}")
        answer = explaining.explain(model, source, url, bearer(token), ca)
    if as_json and not output:
        dump(answer)
        return
    explanation = explaining.parse(model, answer)
    if output:
        explaining.save_overlay(explanation, output)
    if as_json:
        dump(answer)
    else:
        out.print(explaining.table(explanation))


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

    from marsmith.cli.tables import answers_table
    from marsmith.demo import ask, build_starters, check, next_steps
    from marsmith.torchserve.configuration import Ports
    from marsmith.torchserve.server import Server

    Ports(port).check_free()
    with status() as progress:
        archives = [(built, file_sha256(built.path)) for built in build_starters(models, store, progress)]
    for built, sha256 in archives if not as_json else []:
        print_built(built, sha256)
    with Server([built.path for built, _ in archives], Ports(port)) as server:
        _start(server)
        answers = list(ask(models, server))
        if as_json:
            built_json = [
                {**dataclasses.asdict(built), "path": built.path, "size": built.size, "sha256": sha256}
                for built, sha256 in archives
            ]
            dump({"archives": built_json, "answers": [{**dataclasses.asdict(a), "right": a.right} for a in answers]})
        else:
            out.print(answers_table(answers))
        check(answers)
        if not once:
            err.print(next_steps(models, server), soft_wrap=True, markup=False)
            _serve(server)
