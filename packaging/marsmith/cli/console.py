"""What the commands share: consoles, options that several take, and how results are printed."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from marsmith.errors import ClientError
from marsmith.ground.untrusted import json_line

if TYPE_CHECKING:
    from marsmith.ground.progress import Progress
    from marsmith.lint.findings import Finding


class SafeConsole(Console):
    """A console that shows nothing raw: what archives, images and servers say may hold what moves a cursor.

    rich's own control codes pass. ":name:" is no emoji here.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """What is rendered, with characters that cannot be printed as their escapes."""
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or text.isprintable():
                yield segment
            else:
                shown = "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)
                yield Segment(shown, segment.style)


out = SafeConsole()
err = SafeConsole(stderr=True)

Archive = Annotated[Path, typer.Argument(help="A .mar archive.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]
Port = Annotated[int, typer.Option(help="First of the five ports to use.", min=1, max=65531)]
Ca = Annotated[Path | None, typer.Option("--ca", help="A PEM file with the certificate of the server's CA.")]
Url = Annotated[str, typer.Option(help="The server's inference address, http:// or https://.")]
Token = Annotated[str | None, typer.Option(envvar="MARSMITH_TOKEN", help="The server's inference token.")]
Key = Annotated[Path | None, typer.Option(help="The public key that must have signed it.")]
RequireSignature = Annotated[bool, typer.Option("--require-signature", help="Fail unless --key is given.")]
DEFAULT_URL = "http://127.0.0.1:8080"


def escape(text: str) -> str:
    """Text without rich's markup."""
    from rich.markup import escape as escape_markup

    return escape_markup(text)


def dump(value: Any) -> None:
    """Print one JSON value on a line of its own; what the terminal cannot show, or must not, is its escape."""
    sys.stdout.write(json_line(value, sys.stdout.encoding or "utf-8") + "\n")


def forgive_encodings() -> None:
    """Let the standard streams escape what their encoding has not, as in the locale C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def status() -> Iterator[Progress]:
    """A spinner on standard error; yields the function that says what is being done."""
    with err.status("starting") as spinner:
        yield lambda step: spinner.update(escape(step))


def print_warnings(findings: Iterable[Finding]) -> None:
    """Say on standard error what lint thinks may be meant otherwise."""
    for one in findings:
        err.print(
            f"[yellow]warning:[/] {escape(f'{one.code} {one.where}: {one.message} {one.remedy}')}", soft_wrap=True
        )


def bearer(token: str | None) -> dict[str, str]:
    """The headers that carry an inference token, where there is one. Raises ClientError for what no header can hold."""
    token = (token or "").strip()
    if not (token.isascii() and token.isprintable()):
        raise ClientError("The token has characters that no HTTP header can hold: give it as TorchServe wrote it.")
    return {"Authorization": f"Bearer {token}"} if token else {}
