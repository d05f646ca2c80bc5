"""What the commands share: consoles, options that several take, and how results are printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from marsmith.lint.findings import Finding
    from marsmith.progress import Progress

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Archive = Annotated[Path, typer.Argument(help="A .mar archive.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]
Port = Annotated[int, typer.Option(help="First of the five ports to use.", min=1, max=65531)]
Token = Annotated[str | None, typer.Option(envvar="MARSMITH_TOKEN", help="The server's inference token.")]
Key = Annotated[Path | None, typer.Option(help="The public key that must have signed it.")]
RequireSignature = Annotated[bool, typer.Option("--require-signature", help="Fail unless --key is given.")]
DEFAULT_URL = "http://127.0.0.1:8080"


def escape(text: str) -> str:
    """Text without rich's markup."""
    from rich.markup import escape as escape_markup

    return escape_markup(text)


def dump(value: Any) -> None:
    """Print one JSON value on a line of its own; half a surrogate pair, which is no character, stays its escape."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")


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
    """The headers that carry an inference token, where there is one."""
    return {"Authorization": f"Bearer {token}"} if token else {}
