"""MAR-INF/provenance.json: what an archive's network was made from, as an in-toto statement with SLSA provenance.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md and https://slsa.dev/spec/v1.1/provenance.

The build type is `marsmith build`. Its one external parameter is the recipe, by digest; every file that the recipe
leads to is a resolved dependency: `checkpoint/NAME` lies in the checkpoint's directory, any other name is a path as
the recipe gives it. Nothing depends on the clock, the machine or the directory, so that the same inputs give the same
bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

from packageurl import PackageURL
from packaging.version import Version

from marsmith.errors import RecipeError
from marsmith.ground.files import file_sha256
from marsmith.ground.serving import dump_json
from marsmith.recipe.calibration import calibration_files
from marsmith.recipe.checkpoint import Checkpoint
from marsmith.recipe.members import extra_files
from marsmith.recipe.recipe import Recipe
from marsmith.recipe.weights import WEIGHTS_INDEX, weight_files

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILDER = "pkg:generic/marsmith"
BUILD_TYPE = f"{BUILDER}#build/v1"
# Whose releases decide the bytes of graph, weights and tokenizer: the first one alone where there are none. Python's
# does not.
BUILDER_PACKAGES = (
    "marsmith",
    "numpy",
    "onnx",
    "onnx-ir",
    "onnxruntime",
    "onnxscript",
    "pillow",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
)
# Beside the weights, what transformers may read of a checkpoint; which of them it does depends on the model's class.
SETTINGS_FILES = ("*.json", "*.model", "*.txt")


def provenance(
    recipe: Recipe,
    checkpoint: Checkpoint | None,
    materials: Mapping[str, str],
    products: Mapping[str, str],
) -> bytes:
    """The statement that `products` were built from `materials`: both map names to their sha256 in hexadecimal.

    `materials` are what `inputs` returns; `products` are members of the archive.
    """
    hub = origin(checkpoint) if checkpoint else None
    tools = BUILDER_PACKAGES if checkpoint else BUILDER_PACKAGES[:1]
    commit = [{"uri": hub.to_string(), "digest": {"gitCommit": hub.version}}] if hub else []
    return dump_json(
        {
            "_type": STATEMENT_TYPE,
            "subject": _descriptors(products),
            "predicateType": PREDICATE_TYPE,
            "predicate": {
                "buildDefinition": {
                    "buildType": BUILD_TYPE,
                    "externalParameters": {
                        "recipe": {"name": recipe.name, "digest": {"sha256": hashlib.sha256(recipe.toml).hexdigest()}}
                    },
                    "resolvedDependencies": [*commit, *_descriptors(materials)],
                },
                "runDetails": {
                    "builder": {
                        "id": BUILDER,
                        "version": {name: _release(name) for name in tools},
                    }
                },
            },
        }
    )


def inputs(recipe: Recipe, checkpoint: Checkpoint | None) -> dict[str, str]:
    """The sha256 in hexadecimal of every file that the build may read, by name (see above). Raises RecipeError."""
    files: dict[str, Path] = {}
    if checkpoint:
        files = {f"checkpoint/{name}": checkpoint.path / name for name in _checkpoint_files(recipe, checkpoint.path)}
    named = (recipe.handler, recipe.nutrition, *extra_files(recipe), *(sample.image for sample in recipe.samples))
    found = [(recipe.public_name(path), recipe.directory / path) for path in map(Path, filter(None, named))]
    for name, file in (*found, *_calibration(recipe)):
        if files.setdefault(name, file) != file:
            raise RecipeError(f"Two files of the recipe are called {name}: rename one, or give relative paths.")
    return {name: _sha256(file) for name, file in sorted(files.items())}


def _calibration(recipe: Recipe) -> Iterator[tuple[str, Path]]:
    """What the network's accuracy was measured on, by name."""
    if recipe.accuracy is not None:
        path = recipe.accuracy.inputs
        for file in calibration_files(recipe):
            yield (PurePosixPath(recipe.public_name(path)) / file.relative_to(recipe.directory / path)).as_posix(), file


def origin(checkpoint: Checkpoint) -> PackageURL | None:
    """The package URL of a hub checkpoint, with its commit; None for a local one."""
    hub_id, at, commit = checkpoint.source.partition("@")
    return PackageURL.from_string(f"pkg:huggingface/{hub_id}@{commit}") if at else None


def _checkpoint_files(recipe: Recipe, path: Path) -> Iterator[str]:
    """The names of a checkpoint's settings, tokenizer and weights, with transformers' preference among the latter."""
    for pattern in SETTINGS_FILES:
        yield from (file.name for file in path.glob(pattern) if file.is_file() and not file.name.startswith("."))
    # The index is one of the settings.
    yield from (name for name in weight_files(path, allow_pickle=recipe.allow_pickle) if name != WEIGHTS_INDEX)


def _sha256(file: Path) -> str:
    try:
        return file_sha256(file)
    except OSError as error:
        raise RecipeError(
            f"The file {file} that the recipe needs cannot be read: {error.strerror or error}. "
            "Put it there, or change the recipe."
        ) from None


def _descriptors(files: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "digest": {"sha256": sha256}} for name, sha256 in sorted(files.items())]


def _release(name: str) -> str:
    """The installed release, without the local part (+cpu), which names one of its builds."""
    return Version(version(name)).public
