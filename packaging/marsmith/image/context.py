"""The build context of the image, the same bytes, times and modes from a checkout and from an installed Marsmith."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from marsmith.errors import ImageError
from marsmith.ground.progress import Progress, silent
from marsmith.resources import config_properties, dockerfile, image_lock
from marsmith.torchserve.store import fill

DOCKERFILE, LOCK = "Dockerfile.arm64", "packaging/requirements-arm64.lock"
STORE, WHEELS, PACKAGE = "model-store", "wheels", "packaging/marsmith"
FILE_MODE, DIRECTORY_MODE = 0o644, 0o755
# What is on disk beside the package's own files.
IGNORED = shutil.ignore_patterns("__pycache__", "_data", "*.pyc")


def write_context(
    directory: Path,
    archives: Sequence[Path],
    *,
    epoch: int,
    key: Path | None = None,
    require_signature: bool = False,
    lock: Path | None = None,
    wheels: Path | None = None,
    progress: Progress = silent,
) -> list[str]:
    """Fill an empty directory; `epoch` is the time of all files, in seconds since 1970.

    The archives are copied and the copies verified. Returns their models' names. Raises ImageError, ArchiveError,
    SigningError and VerifyError.
    """
    for source, name in ((dockerfile(), DOCKERFILE), (config_properties(), "config.properties")):
        _copy(source, directory / name, "install Marsmith again")
    package = directory / PACKAGE
    shutil.copytree(Path(__file__).resolve().parents[1], package, ignore=IGNORED, copy_function=shutil.copyfile)
    _copy(lock or image_lock(), directory / LOCK, "name yours with --lock")
    (directory / STORE).mkdir()
    sources = fill(directory / STORE, archives, key=key, require_signature=require_signature, progress=progress)
    settle(directory, epoch)
    # Afterwards: a link to the user's own file must keep that file's time and mode.
    _link_wheels(wheels, directory / WHEELS)
    for path in (directory / WHEELS, directory):
        _stamp(path, DIRECTORY_MODE, epoch)
    return list(sources)


def settle(directory: Path, epoch: int) -> None:
    """Give everything below a directory, and it, one time and one mode of its kind."""
    for here, _, files in os.walk(directory, topdown=False):
        for name in files:
            _stamp(Path(here, name), FILE_MODE, epoch)
        _stamp(Path(here), DIRECTORY_MODE, epoch)


def _stamp(path: Path, mode: int, epoch: int) -> None:
    path.chmod(mode)
    os.utime(path, (epoch, epoch))


def _copy(source: Path, target: Path, remedy: str) -> None:
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        raise ImageError(f"There is no {source}, which the image is built from: {remedy}.") from None
    except OSError as error:
        raise ImageError(f"{source} cannot be copied for the build: {error.strerror or error}.") from None


def _link_wheels(wheels: Path | None, target: Path) -> None:
    target.mkdir()
    if wheels is None:
        return
    found = sorted(wheels.glob("*.whl"))
    if not found:
        raise ImageError(f"There are no wheels in {wheels}: fill it with pip download, or leave out --wheels.")
    for wheel in found:
        try:
            os.link(wheel.resolve(), target / wheel.name)
        except OSError:  # another file system, or one without links
            shutil.copy2(wheel, target / wheel.name)
