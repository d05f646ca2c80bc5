"""`marsmith archive`: what torch-model-archiver 0.12 does with the same flags, checked, reproducible and atomic."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from marsmith.errors import ArchiveError
from marsmith.ground.untrusted import printable
from marsmith.ground.values import name_fault, version_fault
from marsmith.lint.entry import BUILT_IN_HANDLERS
from marsmith.lint.findings import Finding, refuse
from marsmith.mar.assumptions import WARN, record
from marsmith.mar.collect import Sources
from marsmith.mar.formats import ENDINGS, Format, alone, check_output, write_format
from marsmith.mar.members import MANIFEST, Members, Source
from marsmith.mar.neighbours import neighbours
from marsmith.recipe.manifest import ARCHIVER_VERSION, CREATED_ON

Lint = Literal["refuse", "warn"]

# The handlers that TorchServe brings: these names are no files.
STOCK: dict[str, Sequence[str]] = {
    "python": BUILT_IN_HANDLERS,
    "python3": BUILT_IN_HANDLERS,
    "LSP": ("BaseHandler", "TorchScriptHandler"),
}
# What is safe as a file name; whether TorchServe can route it is for lint to say.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
OptionalPath = Path | str | None


@dataclass(frozen=True, slots=True)
class Archived:
    """An archive that was written: its size in bytes, its members, and what lint thinks may be meant otherwise."""

    path: Path
    size: int
    members: int
    warnings: list[Finding]


def archive(
    *,
    model_name: str,
    handler: str,
    version: str,
    serialized_file: OptionalPath = None,
    model_file: OptionalPath = None,
    extra_files: Sequence[Path | str] | str = (),
    runtime: str = "python",
    export_path: Path | str = ".",
    archive_format: Format = "default",
    force: bool = False,
    requirements_file: OptionalPath = None,
    config_file: OptionalPath = None,
    assume: Sequence[str] = (),
    lint: Lint = "refuse",
) -> Archived:
    """Pack files as torch-model-archiver 0.12 does; the arguments are its flags, but for the last two.

    `extra_files` as a string is split at commas; as a sequence, each element is one path or glob. An empty string is as
    good as None. `assume` names modules or packages that the server has. With `lint` "warn", what lint finds is
    returned and nothing refused. Both are recorded in the manifest. Raises ArchiveError, or LintError for what would
    not serve; then nothing is written.
    """
    _check_names(model_name, version, handler)
    _check_choices(runtime, archive_format, lint)
    output = Path(export_path) / f"{model_name}{ENDINGS[archive_format]}"
    named = {
        "serialized file": serialized_file,
        "model file": model_file,
        "requirements file": requirements_file,
        "config file": config_file,
    }
    files = {what: Path(path) for what, path in named.items() if path}
    try:
        if output.parent.is_dir():
            with alone(output.parent):
                check_output(output, archive_format, force)
        members: dict[PurePosixPath, Source] = {
            **_collect(output, _handler_file(handler, runtime), files, extra_files),
            PurePosixPath(MANIFEST): _manifest(model_name, handler, version, runtime, files, record(assume, lint)),
        }
        warnings = _lint(members, None if lint == WARN else str(output))
    except OSError as error:
        raise ArchiveError(f"{error.filename or output} cannot be read: {error.strerror or error}.") from None
    try:
        size, count = write_format(output, members, archive_format, force)
    except OSError as error:
        raise ArchiveError(f"The archive {output} cannot be written: {error.strerror or error}.") from None
    return Archived(output, size, count, warnings)


def _check_names(model_name: str, version: str, handler: str) -> None:
    """What the letters of a name and version mean to TorchServe is for lint to say."""
    if not NAME.fullmatch(model_name):
        raise ArchiveError(
            f"The model name {printable(repr(model_name))} cannot be a file's: use letters, digits, '_', '-' and dots, "
            "and begin with a letter or digit."
        )
    if fault := name_fault(model_name):
        raise ArchiveError(f"The model name {printable(model_name)} {fault}.")
    if fault := version_fault(version):
        raise ArchiveError(f"The version {printable(version)} {fault}.")
    for what, value in (("model name", model_name), ("version", version), ("handler", handler)):
        if not value.isprintable():
            raise ArchiveError(f"The {what} {printable(value)} has control characters: leave them out.")


def _check_choices(runtime: str, archive_format: str, lint: str) -> None:
    for what, value, choices in (
        ("runtime", runtime, STOCK),
        ("archive format", archive_format, ENDINGS),
        ("use of lint", lint, get_args(Lint)),
    ):
        if value not in choices:
            raise ArchiveError(f"There is no {what} {value!r}: use one of {', '.join(choices)}.")


def _handler_file(handler: str, runtime: str) -> Path | None:
    """The file that holds the handler, which may name a function after a colon; None for one that TorchServe brings."""
    if handler in STOCK[runtime]:
        return None
    directory, slash, name = handler.rpartition("/")
    name = name.partition(":")[0]
    if runtime == "LSP":
        name += ".so"
    elif not name.endswith(".py"):
        name += ".py"
    return Path(f"{directory}{slash}{name}")


def _collect(
    output: Path, handler: Path | None, files: Mapping[str, Path], extra_files: Sequence[Path | str] | str
) -> Mapping[PurePosixPath, Path]:
    """The members and the files that they come from. Raises ArchiveError when two want one name."""
    sources = Sources(output)
    if handler is not None:
        sources.add_file(handler, "handler")
    for what, path in files.items():
        sources.add_file(path, what)
    if isinstance(extra_files, str):
        extra_files = [piece.strip() for piece in extra_files.split(",") if piece.strip()]
    for pattern in extra_files:
        sources.add_extra(os.fspath(pattern))
    return sources.members


def _manifest(
    model_name: str, handler: str, version: str, runtime: str, files: Mapping[str, Path], recorded: Mapping[str, Any]
) -> bytes:
    """MANIFEST.json with the keys in torch-model-archiver's order; ASCII, since a worker reads it in its own locale.

    What is `recorded` stands behind them.
    """
    names = {what: path.name for what, path in files.items()}
    model = {
        "modelName": model_name,
        "serializedFile": names.get("serialized file"),
        "handler": handler.rpartition("/")[2],
        "modelFile": names.get("model file"),
        "modelVersion": version,
        "requirementsFile": names.get("requirements file"),
        "configFile": names.get("config file"),
    }
    manifest = {
        "createdOn": CREATED_ON,
        "runtime": runtime,
        "model": {key: value for key, value in model.items() if value is not None},
        "archiverVersion": ARCHIVER_VERSION,
        **recorded,
    }
    return json.dumps(manifest, indent=2).encode("ascii")


def _lint(members: Members, what: str | None) -> list[Finding]:
    """What lint finds in what is to be packed. Raises LintError for an error, unless `what`, its name, is None."""
    from marsmith.lint import lint
    from marsmith.lint.tree import Tree

    findings = lint(dataclasses.replace(Tree.of(members), beside=neighbours(members)))
    if what is not None:
        refuse(findings, what)
    return findings
