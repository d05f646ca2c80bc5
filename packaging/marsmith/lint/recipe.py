"""M6: a recipe, its checkpoint and its samples, and the part of the archive that is known before the export."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path

from packaging.version import Version

from marsmith.errors import CheckpointError, RecipeError
from marsmith.ground.files import is_dir, is_file, leads_out
from marsmith.ground.limits import MAX_HEAD_BYTES, MAX_SAMPLE_BYTES
from marsmith.ground.placeholders import what_stands_at
from marsmith.lint import lint
from marsmith.lint.explaining import lint_explaining
from marsmith.lint.findings import Finding
from marsmith.lint.importing import collect
from marsmith.lint.imports import unrequired
from marsmith.lint.manifest import read_manifest
from marsmith.lint.modules import Modules, parse
from marsmith.lint.packages import installed
from marsmith.lint.pickles import kind_of
from marsmith.lint.requirements import is_servers_own, required
from marsmith.lint.sources import lint_sources
from marsmith.lint.tree import Tree
from marsmith.recipe.calibration import calibration_files
from marsmith.recipe.checkpoint import HUB_ID, resolve
from marsmith.recipe.foreign import Foreign, foreign
from marsmith.recipe.members import code, extra_files, nutrition, planned
from marsmith.recipe.recipe import Recipe, package_of
from marsmith.recipe.weights import PICKLED_WEIGHTS, WEIGHTS, WEIGHTS_INDEX

# What transformers and tokenizers read of a checkpoint's directory.
READ = (
    *("config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.*"),
    *("vocab.*", "merges.txt", "*.model", "*.safetensors", WEIGHTS_INDEX),
)
# A checkpoint has some dozens of files; a training run's directory may have any number, and this many are looked at.
MAX_CHECKPOINT_FILES = 1000
# What is told from a file that is not read: the codes of lint_sources that matter there.
ALARMING = ("M405", "M412")
# The keys of a recipe that name files of the archive, and what reads them.
PARTS = {"handler": code, "nutrition": nutrition, "extra_files": extra_files}
# And those that a build reads only.
READ_ONLY = {"accuracy.inputs": calibration_files}
# What resolve, which a build asks for the checkpoint, refuses too.
CHECKPOINT_CODES = ("M601", "M602", "M611")
# The hub's cache: snapshots/COMMIT holds links into blobs, beside it.
CACHE_SNAPSHOTS, CACHE_BLOBS = "snapshots", "blobs"


def lint_recipe(source: Path | Recipe) -> list[Finding]:
    """All findings about a recipe, its file, or the recipe.toml of a directory, by code, then by place.

    A checkpoint on the hub is not asked for. Raises RecipeError.
    """
    recipe = source if isinstance(source, Recipe) else Recipe.load(source)
    findings = [*_lint_samples(recipe), *_lint_files(recipe)]
    if not any(one.where == "handler" for one in findings):
        broken = {one.where: Recipe.model_fields[one.where].get_default() for one in findings if one.where in PARTS}
        tree = Tree.of(planned(recipe.model_copy(update=broken), recipe.checkpoint or ""))
        modules = Modules.of(tree, parse(tree)[0])
        findings += [*lint(tree), *_lint_packages(recipe, tree, modules)]
        if recipe.explain and recipe.handler:
            findings += lint_explaining(modules, recipe.entry)
    if recipe.checkpoint is not None:
        local = recipe.directory / recipe.checkpoint
        if is_dir(local) or not HUB_ID.match(recipe.checkpoint) or recipe.checkpoint.startswith("."):
            findings += _lint_checkpoint(recipe, recipe.checkpoint, local)
    return sorted(findings, key=lambda one: (one.code, one.where, one.message))


def _lint_files(recipe: Recipe) -> Iterator[Finding]:
    """The files that the recipe names, by the keys that name them."""
    for key, members_of in (PARTS | READ_ONLY).items():
        try:
            members_of(recipe)
        except RecipeError as error:
            yield Finding("M605", key, str(error), "Correct the path or the file.")


def _lint_packages(recipe: Recipe, tree: Tree, modules: Modules) -> Iterator[Finding]:
    """What the worker imports, and what is installed where the golden requests will be asked."""
    packages = required(tree, read_manifest(tree))
    for module, where in unrequired(modules, collect(modules.parsed), packages, [recipe.entry]):
        pins = [f"{name}=={version(name)}" for name in sorted(installed()[module])]
        yield Finding(
            "M607",
            where,
            f"{module} is installed here, but nothing says that a server has it.",
            f"Require it in the recipe: requirements = {pins}.",
        )
    for requirement in recipe.requirements:
        if is_servers_own(package_of(requirement)):
            continue  # M304 says to leave it out
        name, _, pin = requirement.partition("==")
        here = _installed_version(name)
        if here is None or Version(here) != Version(pin):
            found = f"{here} is" if here else "none is"
            yield Finding(
                "M608",
                "requirements",
                f"The recipe requires {requirement}, but {found} installed here: the archive would be tested without.",
                f"pip install {requirement}, or require the version that is here.",
            )


def _installed_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _lint_checkpoint(recipe: Recipe, name: str, directory: Path) -> Iterator[Finding]:
    pickled = _names(directory, "pytorch_model*.bin")
    safe = _names(directory, "*.safetensors")
    needed = _foreign(directory)
    yield from (Finding("M611", one.file, f"The key {one.key} {one.does}.", one.remedy) for one in needed)
    if pickled and not safe and not recipe.allow_pickle:
        yield Finding(
            "M602",
            pickled[0],
            "The weights are a pickle only, which can run code, and the recipe does not allow that.",
            "Save them with save_pretrained as safetensors, or set allow_pickle = true.",
        )
    elif not needed:
        try:
            resolve(recipe)
        except CheckpointError as error:
            yield Finding("M601", name, str(error), "Name a whole checkpoint for the recipe's task.")
    root = _root(directory)
    files = list(islice(_walk(directory), MAX_CHECKPOINT_FILES))
    read = [file for file in files if _is_read(file, directory, recipe)]
    yield from lint_sources(root, read)
    for finding in lint_sources(root, (file for file in files if file not in read)):
        if finding.code in ALARMING:
            yield Finding("M604", finding.where, finding.message, "Move it to where nobody packs or publishes it.")
    if safe:
        yield from _pickles_beside(directory)


def _foreign(directory: Path) -> list[Foreign]:
    """What the checkpoint needs beside itself; nothing where its settings cannot be read, which `resolve` refuses."""
    try:
        return list(foreign(directory))
    except CheckpointError:
        return []


def _names(directory: Path, pattern: str) -> list[str]:
    return sorted(file.name for file in directory.glob(pattern)) if is_dir(directory) else []


def _root(directory: Path) -> Path:
    """What the directory's links may not leave: itself, and for a snapshot of the hub's cache, its repository."""
    path = directory.resolve()
    repository = path.parent.parent
    return repository if path.parent.name == CACHE_SNAPSHOTS and (repository / CACHE_BLOBS).is_dir() else directory


def _walk(directory: Path) -> Iterator[Path]:
    """The files below a directory in one order; folders that are links are not entered."""
    for folder, folders, files in os.walk(directory):
        folders.sort()
        yield from (Path(folder, name) for name in sorted(files))


def _is_read(file: Path, directory: Path, recipe: Recipe) -> bool:
    if file.parent != directory:
        return False
    patterns = READ if not recipe.allow_pickle else (*READ, PICKLED_WEIGHTS)
    return any(fnmatchcase(file.name, pattern) for pattern in patterns)


def _pickles_beside(directory: Path) -> Iterator[Finding]:
    """Files such as training_args.bin, that one wrong call of torch.load or joblib.load would run."""
    for file in sorted(directory.iterdir()):
        head = _head(file)
        if head is not None and kind_of(file.name, head) == "pickle":
            yield Finding(
                "M603",
                file.name,
                f"It is a pickle, which can run code when it is loaded; nothing reads it beside {WEIGHTS}.",
                "Remove it from the checkpoint.",
            )


def _lint_samples(recipe: Recipe) -> Iterator[Finding]:
    """A sample's text is never quoted."""
    if not recipe.samples and recipe.kind.section:
        yield Finding(
            "M606",
            "samples",
            "The recipe has no samples, so only built-in probes test the archive.",
            "Add [[samples]] with expect.",
        )
    elif not recipe.samples:
        yield Finding(
            "M609",
            "samples",
            f"The recipe has no samples, and the {recipe.task} task has no probes: nothing would test the archive.",
            "Add [[samples]], each with text, image or json, and what you expect of the answer.",
        )
    for number, sample in enumerate(recipe.samples, start=1):
        if sample.image is None:
            continue
        where, file = f"samples {number}: {sample.image}", recipe.directory / sample.image
        if _head(file) is None:
            yield Finding("M605", where, "There is no such file that can be read.", "Correct the path or its rights.")
        elif file.stat().st_size > MAX_SAMPLE_BYTES:
            larger = f"It has more than {MAX_SAMPLE_BYTES:,} bytes, which is all that a handler takes."
            yield Finding("M605", where, larger, "Give a smaller file.")
        elif kind := what_stands_at(file, json_is_data=recipe.handler is not None):
            yield Finding("M605", where, f"It is {kind.what}.", f"{kind.remedy.capitalize()}.")
        elif leads_out(file, recipe.directory):
            yield Finding("M605", where, "It is a link out of the recipe's directory.", "Put a copy in its place.")


def _head(file: Path) -> bytes | None:
    """The first bytes of a regular file; None when there is none that can be read."""
    try:
        if not is_file(file):
            return None
        with file.open("rb") as stream:
            return stream.read(MAX_HEAD_BYTES)
    except (OSError, ValueError):
        return None
