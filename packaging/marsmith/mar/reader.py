"""Read .mar archives, and those that a server has unpacked: bounded, and what goes wrong comes out as ArchiveError."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from marsmith.errors import ArchiveError, first_line
from marsmith.ground import yamls
from marsmith.ground.files import is_file, open_regular, read_regular
from marsmith.ground.limits import MAX_PAPER_BYTES, MAX_YAML_BYTES
from marsmith.ground.untrusted import json_value, mapping, plain


def extract_archive(path: Path, out: Path) -> None:
    """Unpack an archive into the directory `out`. Raises ArchiveError."""
    with open_archive(path) as zip_file:
        zip_file.extractall(out)  # zipfile drops roots and ".."


def read_member(zip_file: zipfile.ZipFile, member: str, limit: int = MAX_PAPER_BYTES) -> bytes:
    """A member's content; empty where there is no such member. Raises ArchiveError past `limit` bytes."""
    try:
        with zip_file.open(member) as stream:
            content = stream.read(limit + 1)
    except KeyError:
        return b""
    if len(content) > limit:
        raise ArchiveError(f"{member} of the archive has more than {limit:,} bytes: it is not what it should be.")
    return content


def read_json(path: Path, member: str) -> dict[str, Any]:
    """One JSON member of an archive, unpacked or not; empty where it is none. Raises ArchiveError."""
    return mapping(json_value(_content(path, member, MAX_PAPER_BYTES)))


def read_yaml(path: Path, member: str) -> dict[str, Any]:
    """One YAML member of an archive, unpacked or not; empty where there is none. Raises ArchiveError."""
    text = _content(path, member, MAX_YAML_BYTES).decode("utf-8", "replace")
    try:
        value = yamls.load(text).value
    except yamls.YamlFault as fault:
        raise ArchiveError(f"{member} of {path} cannot be read: {fault}. Correct it and pack it again.") from None
    return mapping(plain(value))


def _content(path: Path, member: str, limit: int) -> bytes:
    if not path.is_dir():
        with open_archive(path) as zip_file:
            return read_member(zip_file, member, limit)
    try:
        return read_regular(path / member, limit) if is_file(path / member) else b""
    except OSError as error:
        raise ArchiveError(f"{path / member} cannot be read: {error.strerror or error}.") from None


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive as a zip file; what goes wrong with it comes out as ArchiveError."""
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as zip_file:
            yield zip_file
    except FileNotFoundError:
        raise ArchiveError(f"There is no archive {path}. Build it with marsmith build.") from None
    except (OSError, EOFError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ArchiveError(f"{path} is not a readable archive ({first_line(error)}): build it again.") from None
