"""Commands that say whether an archive can be trusted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from marsmith.cli.console import Archive, AsJson, Ca, Key, RequireSignature, Token, bearer, dump, err, out, status


def lint(
    target: Annotated[Path, typer.Argument(help="A recipe (file or directory), or a .mar archive.")],
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not ask the package index for aarch64 wheels.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find what would fail or surprise when TorchServe loads it. The exit code is 1 when there is an error."""
    from marsmith.cli.tables import findings_table
    from marsmith.lint.command import lint_target

    with status() as progress:
        findings = lint_target(target, progress, offline=offline)
    if as_json:
        dump([{**dataclasses.asdict(one), "severity": one.severity} for one in findings])
    elif findings:
        out.print(findings_table(findings))
    errors = sum(one.severity == "error" for one in findings)
    warnings = len(findings) - errors
    err.print(f"{target}: errors: {errors}, warnings: {warnings}", soft_wrap=True, markup=False)
    if errors or (strict and warnings):
        raise typer.Exit(1)


def verify(
    archive: Archive,
    key: Key = None,
    require_signature: RequireSignature = False,
    minimum_version: Annotated[
        str | None, typer.Option(help="Fail for an older model version: an old signed archive stays valid for ever.")
    ] = None,
    sha256: Annotated[str | None, typer.Option(help="Fail unless the file has this sha256, in hexadecimal.")] = None,
    as_json: AsJson = False,
) -> None:
    """Prove that an archive is, byte for byte, what was built; with a key, also who signed it, but not when."""
    from marsmith.cli.tables import problems_table
    from marsmith.mar.proof import Pins
    from marsmith.mar.verify import verify as verify_archive

    pins = Pins(minimum_version, sha256)
    with bytes_bar(archive, "verifying") as progress:
        report = verify_archive(archive, key, require_signature=require_signature, pins=pins, progress=progress)
    if as_json:
        dump({**dataclasses.asdict(report), "ok": report.ok})
    elif report.ok:
        out.print(f"{archive}: {_verdict(report)}", soft_wrap=True, markup=False)
    else:
        out.print(problems_table(report.problems))
    if not report.ok:
        err.print(f"{archive} is not to be trusted: problems: {len(report.problems)}", soft_wrap=True, markup=False)
        raise typer.Exit(1)


def _verdict(report: Any) -> str:
    """What a sound archive is known to be, and what is not known of it."""
    signature = {
        "none": "not signed",
        "unchecked": "signature not checked (name the key with --key)",
        "valid": "signature valid",
    }[report.signature]
    if not report.sealed:
        return (
            f"structure sound, {report.members} members; it has no digests, so its content is not proven; {signature}"
        )
    return f"{report.members} members as they were built; {signature}"


def sign(
    archive: Archive,
    key: Annotated[Path, typer.Option(help="Your private key, as marsmith keygen makes it.")],
    as_json: AsJson = False,
) -> None:
    """Sign an archive in place, offline. An older signature is replaced."""
    from marsmith.mar.signing import sign as sign_archive

    with bytes_bar(archive, "signing") as progress:
        key_id = sign_archive(archive, key, progress)
    if as_json:
        dump({"path": archive, "key_id": key_id})
    else:
        out.print(f"signed {archive} with key {key_id}", soft_wrap=True, markup=False)


def keygen(
    path: Annotated[Path, typer.Argument(help="Where the private key goes; the public key stands beside it.")] = Path(
        "ed25519.pem"
    ),
    as_json: AsJson = False,
) -> None:
    """Make an Ed25519 key pair for signing archives."""
    from marsmith.mar.keys import keygen as make_keys

    public = make_keys(path)
    if as_json:
        dump({"private": path, "public": public})
    else:
        out.print(f"private key {path} (keep it), public key {public} (give it away)", soft_wrap=True, markup=False)


def replay(
    archive: Archive,
    server: Annotated[str | None, typer.Option(help="Ask this running server instead of a worker.")] = None,
    token: Token = None,
    key: Key = None,
    require_signature: RequireSignature = False,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Replay an archive's golden requests in TorchServe's real worker, or on a running server.

    Without --server this runs the archive's code with your rights: name the --key that must have signed it, or use a
    container for an archive of a stranger. Python's network calls are refused there, other programs' are not.
    """
    from marsmith.cli.tables import outcomes_table
    from marsmith.evidence.replay import in_worker, on_server, require_ok
    from marsmith.mar.verify import verify as verify_archive

    with status() as progress:
        progress("asking the golden requests")
        if server:
            if key or require_signature:
                verify_archive(archive, key, require_signature=require_signature).require_ok()
            outcomes = list(on_server(archive, server, bearer(token), ca))
        else:
            outcomes = in_worker(archive, key, require_signature=require_signature)
    if as_json:
        dump([{**dataclasses.asdict(one), "ok": one.ok} for one in outcomes])
    elif outcomes:
        out.print(outcomes_table(outcomes))
    else:
        out.print(f"{archive} loads; it has no golden requests to answer", soft_wrap=True, markup=False)
    require_ok(outcomes, str(archive))


@contextmanager
def bytes_bar(path: Path, what: str) -> Iterator[Callable[[int], None]]:
    """A bar over the bytes of a file, on standard error; yields what is told of each step."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), DownloadColumn(), console=err, transient=True) as bar:
        task = bar.add_task(what, total=path.stat().st_size if path.is_file() else None)
        yield lambda count: bar.advance(task, count)
