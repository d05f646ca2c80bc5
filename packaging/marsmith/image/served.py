"""What of an image its entry point serves, judged as the entry point judges it: the same files, links and key.

`marsmith.container.plan.admit_models` is the code that runs there; what it finds in a file system is found here in the
layers.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from marsmith.container.settings import MODEL_STORE, SAGEMAKER_MODEL, YES
from marsmith.errors import ImageError, MarsmithError
from marsmith.ground.untrusted import strings
from marsmith.image.archive import Image
from marsmith.image.extract import extract
from marsmith.image.results import Result, verdict
from marsmith.image.tree import File, Tree
from marsmith.mar.members import DIGESTS
from marsmith.mar.unpacked import verify_unpacked
from marsmith.mar.verify import verify
from marsmith.torchserve.store import model_name

SUFFIX = ".mar"


@dataclass(frozen=True, slots=True)
class Served:
    """The archives that the entry point serves, copied out of the image, and what is known of them."""

    archives: list[Path] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)


def check_served(image: Image, tree: Tree, given: Mapping[str, str], scratch: Path) -> Served:
    """Judge what an image serves in the environment of its configuration and what is `given` beside it.

    `scratch` is an empty directory. Raises ImageError for an image that cannot be read.
    """
    environ = _environment(image) | dict(given)
    if environ.get("SAGEMAKER_MULTI_MODEL", "").lower() in YES:
        return Served(results=[Result("archives", "note", "models are named while it serves: none is judged here")])
    store = _store(tree, environ)
    directory = tree.real(store)
    if directory is None:
        return Served(results=[Result("archives", "wrong", f"{store} is a link without end: bake a directory there")])
    key, notes = _key(image, tree, environ, scratch / "key.pub")
    if _is_unpacked(tree, store):
        return Served(results=[_check_unpacked(image, tree, directory, key, scratch / "tree"), *notes])
    found = [file for file in tree.below(directory) if file.path.endswith(SUFFIX)]
    direct = [file for file in found if posixpath.dirname(file.path) == directory]
    elsewhere = sorted(file.path for file in found if file not in direct and file.kind != "directory")
    if elsewhere:
        notes.append(
            Result(
                "archives", "note", "archives that are not served, since they lie in a folder of it", tuple(elsewhere)
            )
        )
    if not direct:
        return Served(results=notes)
    archives, wrong = _copied(image, tree, direct, scratch / "archives")
    wrong += _faults(archives, key, required=environ.get("REQUIRE_SIGNATURE", "").lower() in YES)
    good = f"{len(archives)} as they were built: {', '.join(path.name for path in archives)}"
    bad = f"{len(wrong)} are not to be trusted or not to be judged: build the image again"
    return Served(archives, [verdict("archives", wrong, good, bad), *notes])


def _environment(image: Image) -> dict[str, str]:
    pairs = (one.partition("=") for one in strings(image.config.get("Env")))
    return {name: value for name, _, value in pairs}


def _store(tree: Tree, environ: Mapping[str, str]) -> str:
    """The directory of the archives, as `Settings.from_environment` chooses it."""
    if store := environ.get("MODEL_STORE"):
        return store
    sagemaker = str(SAGEMAKER_MODEL)
    directory = tree.real(sagemaker)
    archives = [one for one in tree.below(directory) if one.path.endswith(SUFFIX)] if directory else []
    direct = any(posixpath.dirname(one.path) == directory for one in archives)
    return sagemaker if direct or _is_unpacked(tree, sagemaker) else str(MODEL_STORE)


def _is_unpacked(tree: Tree, store: str) -> bool:
    digests = tree.resolve(f"{store}/{DIGESTS}")
    return digests is not None and digests.kind == "file"


def _key(image: Image, tree: Tree, environ: Mapping[str, str], copy: Path) -> tuple[Path | None, list[Result]]:
    """The key that the container trusts, copied out; a note where it is not in the image."""
    name = environ.get("SIGNATURE_KEY")
    if not name:
        return None, []
    file = tree.resolve(name)
    if file is None or file.kind != "file":
        return None, [Result("archives", "note", f"signatures are not judged: the key {name} is not in the image")]
    extract(image, {copy: file})
    return copy, []


def _copied(image: Image, tree: Tree, found: list[File], directory: Path) -> tuple[list[Path], list[str]]:
    """Copies under the archives' own names, and what is wrong with those that cannot be copied."""
    copies: dict[Path, File] = {}
    wrong = []
    for file in found:
        target = tree.resolve(file.path)
        if target is not None and target.kind == "file":
            copies[directory / file.name] = target
        else:
            link = f"a link to {file.target}, which is not a file in the image"
            kind = {"link": link, "directory": "a directory"}.get(file.kind, "a device or the like")
            wrong.append(f"{file.name}: it is {kind}")
    directory.mkdir()
    extract(image, copies)
    return sorted(copies), wrong


def _faults(archives: list[Path], key: Path | None, *, required: bool) -> list[str]:
    """The first thing that is wrong with each archive, and models of the same name."""
    wrong = []
    names: dict[str, Path] = {}
    for path in archives:
        try:
            report = verify(path, key, require_signature=required and key is not None)
            problems = [problem.message for problem in report.problems]
            if not problems:
                first = names.setdefault(model_name(path, path), path)
                problems = [f"it holds the same model as {first.name}"] if first != path else []
        except MarsmithError as error:
            problems = [str(error)]
        wrong += [f"{path.name}: {problem}" for problem in problems[:1]]
    return wrong


def _check_unpacked(image: Image, tree: Tree, directory: str, key: Path | None, copy: Path) -> Result:
    """Whether the model that lies unpacked in the image is what was built."""
    where = f"/{directory}"
    below = tree.below(directory)
    if special := [file.path for file in below if file.kind not in ("file", "directory")]:
        return Result("archives", "wrong", f"the model unpacked in {where} has links or devices", tuple(special))
    files = {copy / posixpath.relpath(file.path, directory): file for file in below if file.kind == "file"}
    try:
        for path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ImageError(f"The model in {where} of {image.path} cannot be copied: {error.strerror or error}.") from None
    extract(image, files)
    try:
        verify_unpacked(copy, key)
    except MarsmithError as error:
        return Result("archives", "wrong", str(error).replace(str(copy), where))
    return Result("archives", "ok", f"the model unpacked in {where} is as it was built")
