"""A model store: copies of sound archives, each under its model's name, and what they tell TorchServe."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from marsmith.errors import ArchiveError
from marsmith.ground.files import open_regular
from marsmith.ground.progress import Progress, silent
from marsmith.ground.untrusted import mapping
from marsmith.ground.values import NAME_PATTERN
from marsmith.mar.members import CONFIG, MANIFEST
from marsmith.mar.reader import read_json, read_yaml
from marsmith.mar.verify import verify
from marsmith.mar.writer import CHUNK_BYTES

# Whoever serves a store need not be who filled it.
FILE_MODE = 0o644


def fill(
    store: Path,
    archives: Iterable[Path],
    *,
    key: Path | None = None,
    require_signature: bool = False,
    progress: Progress = silent,
) -> dict[str, Path]:
    """Copy archives into a directory and verify the copies: they are what will be served. The sources by model name.

    Raises ArchiveError for one that cannot be copied or served, VerifyError for one that is not sound, or that was not
    signed with `key` where that is required, and SigningError for a key that cannot be used.
    """
    sources: dict[str, Path] = {}
    for path in archives:
        progress(f"verifying {path.name}")
        copy = store / f"{len(sources)}.copy"
        try:
            with open_regular(path) as source, copy.open("wb") as target:
                shutil.copyfileobj(source, target, CHUNK_BYTES)
        except FileNotFoundError:
            raise ArchiveError(f"There is no archive {path}. Build it with marsmith build.") from None
        except OSError as error:
            raise ArchiveError(f"{path} cannot be copied to be served: {error.strerror or error}.") from None
        report = verify(copy, key, require_signature=require_signature)
        report.path = path
        report.require_ok()
        name = model_name(copy, path)
        if name in sources:
            raise ArchiveError("Two of the archives hold a model of one name: take one of them, or rename a recipe.")
        copy.chmod(FILE_MODE)
        copy.replace(store / f"{name}.mar")
        sources[name] = path
    return sources


def model_name(archive: Path, path: Path) -> str:
    """The name of the model in `archive`, a copy of `path`. Raises ArchiveError."""
    model = mapping(read_json(archive, MANIFEST).get("model"))
    if not {"modelName", "handler"} <= model.keys():
        raise ArchiveError(f"The manifest of {path} names no model and handler: TorchServe cannot serve it.")
    name = str(model["modelName"])
    if not re.fullmatch(NAME_PATTERN, name):
        raise ArchiveError(f"The model name in {path} cannot be routed by TorchServe: build the archive again.")
    return name


def workers_of(archive: Path) -> int:
    """How many workers an archive asks for."""
    return _number(archive, "minWorkers", 1)


def startup_timeout_s(archive: Path) -> int:
    """The seconds that an archive allows its workers to load in."""
    return _number(archive, "startupTimeout", 0)


def _number(archive: Path, key: str, default: int) -> int:
    value = read_yaml(archive, CONFIG).get(key)
    return value if isinstance(value, int) else default
