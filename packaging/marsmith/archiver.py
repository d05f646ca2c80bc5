"""`marsmith archive`: what torch-model-archiver 0.12 does with the same flags, checked, reproducible and atomic."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import gzip
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from marsmith.errors import ArchiveError
from marsmith.ground.files import atomic
from marsmith.ground.untrusted import printable
from marsmith.ground.values import name_fault, version_fault
from marsmith.lint.entry import BUILT_IN_HANDLERS
from marsmith.lint.findings import Finding, refuse
from marsmith.mar.assumptions import WARN, record
from marsmith.mar.collect import Sources
from marsmith.mar.members import MANIFEST, Members, Source
from marsmith.mar.neighbours import neighbours
from marsmith.mar.writer import CHUNK_BYTES, open_source, write_archive
from marsmith.recipe.manifest import ARCHIVER_VERSION, CREATED_ON

Format = Literal["default", "zip-store", "tgz", "no-archive"]
Lint = Literal["refuse", "warn"]

ENDINGS: dict[str, str] = {"default": ".mar", "zip-store": ".mar", "tgz": ".tar.gz", "no-archive": ""}
# The handlers that TorchServe brings: these names are no files.
STOCK: dict[str, Sequence[str]] = {
    "python": BUILT_IN_HANDLERS,
    "python3": BUILT_IN_HANDLERS,
    "LSP": ("BaseHandler", "TorchScriptHandler"),
}
# What is safe as a file name; whether TorchServe can route it is for lint to say.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Weights hardly shrink: the highest levels cost minutes for a few bytes.
GZIP_LEVEL = 6

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
            with _alone(output.parent):
                _check_output(output, archive_format, force)
        members: dict[PurePosixPath, Source] = {
            **_collect(output, _handler_file(handler, runtime), files, extra_files),
            PurePosixPath(MANIFEST): _manifest(model_name, handler, version, runtime, files, record(assume, lint)),
        }
        warnings = _lint(members, None if lint == WARN else str(output))
    except OSError as error:
        raise ArchiveError(f"{error.filename or output} cannot be read: {error.strerror or error}.") from None
    try:
        size, count = _write(output, members, archive_format, force)
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


def _check_output(output: Path, archive_format: str, force: bool) -> None:
    """Raise ArchiveError when the output would replace something that it may not."""
    if not os.path.lexists(output):
        return
    if not force:
        raise ArchiveError(f"{output} exists already: replace it with --force, or name another --export-path.")
    if archive_format == "no-archive" and not _is_model_directory(output):
        raise ArchiveError(
            f"{output} is no model directory, which has a {MANIFEST}, so --force does not replace it: move it "
            "away, or name another --export-path."
        )


def _is_model_directory(path: Path) -> bool:
    """Whether nothing but a model is lost with the directory: an empty one holds nothing."""
    if path.is_symlink() or not path.is_dir():
        return False
    return (path / MANIFEST).is_file() or not any(path.iterdir())


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


def _write(output: Path, members: Members, archive_format: str, force: bool) -> tuple[int, int]:
    """Write the members in one of the formats. Returns the size in bytes and the number of members."""
    if ENDINGS[archive_format] == ".mar":
        count = len(write_archive(output, members, store=archive_format == "zip-store"))
        return output.stat().st_size, count
    output.parent.mkdir(parents=True, exist_ok=True)
    if archive_format == "tgz":
        _write_tgz(output, members)
        return output.stat().st_size, len(members)
    return _write_directory(output, members, force), len(members)


def _in_order(members: Members) -> list[PurePosixPath]:
    return sorted(members, key=lambda name: (str(name) == MANIFEST, str(name)))


def _write_tgz(output: Path, members: Members) -> None:
    """A tar file with one root directory, which TorchServe strips; no clock, owner or mode gets into it."""
    root = output.name.removesuffix(ENDINGS["tgz"])
    with (
        atomic(output) as stream,
        gzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=stream, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in _in_order(members):
            with open_source(members[name], name) as (reader, size):
                entry = tarfile.TarInfo(f"{root}/{name}")
                entry.size = size
                tar.addfile(entry, reader)


def _write_directory(output: Path, members: Members, force: bool) -> int:
    """A directory that gets its name when it is whole; with `force` it replaces the model that has it then.

    Returns the bytes of its files.
    """
    size = 0
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as scratch:
        tree = Path(scratch, "new")
        for name in _in_order(members):
            file = tree / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with open_source(members[name], name) as (reader, _), file.open("wb") as stream:
                shutil.copyfileobj(reader, stream, CHUNK_BYTES)
                size += stream.tell()
                stream.flush()
                os.fsync(stream.fileno())
        with _alone(output.parent):
            _check_output(output, "no-archive", force)
            _swap(tree, output, Path(scratch, "old"))
    return size


def _swap(new: Path, output: Path, old: Path) -> None:
    """Give the directory `new` its name; one that had it becomes `old`."""
    try:
        if os.path.lexists(output):
            output.rename(old)
        new.rename(output)
    except BaseException:
        if old.exists() and not os.path.lexists(output):
            old.rename(output)
        raise


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """No other build swaps its output in this directory meanwhile: for a moment of a swap the name is nobody's."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # not every network file system has locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
