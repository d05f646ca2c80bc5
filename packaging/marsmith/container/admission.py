"""Models on their way into the container's own store: what was verified is what TorchServe is given.

Whoever can write to a mounted volume could change a model after it was looked at. So each model is copied to a
directory of the container's own first, and the copy is verified; TorchServe never learns where it came from.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from marsmith.container.settings import Settings
from marsmith.errors import ArchiveError, ContainerError
from marsmith.ground.untrusted import mapping
from marsmith.mar.members import CONFIG, MANIFEST
from marsmith.mar.reader import extract_archive, read_json, read_yaml
from marsmith.mar.unpacked import verify_unpacked
from marsmith.torchserve.store import fill, model_name

# Nobody but this user's processes reads or writes there.
PRIVATE_MODE = 0o700


def admit_archive(path: Path, settings: Settings) -> str:
    """Unpack a verified copy of an archive into the store, under the name of its model: the name.

    Raises ArchiveError for an archive that cannot be read, copied or served, VerifyError for one that is not sound or
    lacks the signature that the settings require, SigningError for a key that cannot be used, and ContainerError where
    the store has a model of that name, or no room.
    """
    with _part(settings) as part:
        (name,) = fill(part, [path], key=settings.key, require_signature=settings.require_signature)
        tree = part / "tree"
        extract_archive(part / f"{name}.mar", tree)
        _keep(tree, name, settings)
    return name


def admit_tree(directory: Path, settings: Settings, name: str | None = None) -> str:
    """Copy a tree that SageMaker unpacked into the store, verified, as `name` or as its manifest calls it: the name.

    Raises as `admit_archive` does. A tree always needs digests.
    """
    # First where it is: its problems are named by paths that an operator knows, and what is not a model is not copied.
    verify_unpacked(directory, settings.key)
    with _part(settings) as part:
        tree = part / "tree"
        try:
            shutil.copytree(directory, tree, symlinks=True, copy_function=shutil.copyfile)
        except shutil.Error as error:
            _source, _copy, reason = error.args[0][0]
            raise ArchiveError(f"{directory} cannot be copied to be served: {reason}.") from None
        verify_unpacked(tree, settings.key)
        _restore_manifest(tree)
        name = name or model_name(tree, directory)
        _keep(tree, name, settings)
    return name


def dismiss(name: str, settings: Settings) -> None:
    """Remove a model from the store."""
    shutil.rmtree(settings.store / name, ignore_errors=True)


@contextmanager
def _part(settings: Settings) -> Iterator[Path]:
    """A directory in the store for a model that is not verified yet; it is removed in the end."""
    try:
        settings.store.mkdir(PRIVATE_MODE, parents=True, exist_ok=True)
        # TorchServe is told names that begin with a letter or a digit only.
        with tempfile.TemporaryDirectory(prefix=".", dir=settings.store, ignore_cleanup_errors=True) as part:
            yield Path(part)
    except OSError as error:
        raise ContainerError(
            f"{settings.store} cannot be written to ({error.strerror or error}): mount a volume with room for the "
            "unpacked models at MARSMITH_HOME."
        ) from None


def _restore_manifest(tree: Path) -> None:
    """Name the handler and the configuration, which a build for SageMaker keeps apart (targets/sagemaker.py)."""
    manifest = read_json(tree, MANIFEST)
    model, kept = mapping(manifest.get("model")), mapping(manifest.get("marsmith"))
    if "handler" in model or "handler" not in kept:
        return
    model |= {"handler": kept["handler"], "modelVersion": kept.get("modelVersion"), "configFile": CONFIG}
    (tree / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def _keep(tree: Path, name: str, settings: Settings) -> None:
    if (settings.store / name).exists():
        raise ContainerError(f"Two models are called {name}: leave one of them out.")
    if settings.timeouts:
        config = read_yaml(tree, CONFIG) | settings.timeouts
        (tree / CONFIG).write_text(yaml.safe_dump(config), encoding="utf-8")
    tree.rename(settings.store / name)
