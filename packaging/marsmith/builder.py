"""`marsmith build`: recipe -> archive."""

from __future__ import annotations

import csv
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from marsmith import manifest, mar
from marsmith.checkpoint import resolve
from marsmith.errors import RecipeError
from marsmith.export import GRAPH, WEIGHTS, check_parity
from marsmith.progress import Progress, silent
from marsmith.recipe import Recipe
from marsmith.resources import handlers_tree
from marsmith.serving import Options, Serving, dump_json

MODEL = PurePosixPath("model")


@dataclass(frozen=True, slots=True)
class Built:
    """An archive that was written. `parity` is the largest difference of its logits from the checkpoint's."""

    path: Path
    size: int
    members: int
    parity: float


def build(recipe_path: Path, out: Path, progress: Progress = silent) -> Built:
    """Build the archive `out`/NAME.mar of a recipe. `progress` hears the name of each step.

    Raises MarsmithError; then nothing is written.
    """
    recipe = Recipe.load(recipe_path)
    nutrition = _nutrition(recipe)
    progress("checking the checkpoint")
    checkpoint = resolve(recipe)
    progress("loading the checkpoint")
    reference = _reference(recipe, checkpoint)
    with tempfile.TemporaryDirectory(prefix="marsmith-") as scratch:
        progress("exporting the network")
        reference.export(Path(scratch))
        progress("comparing with the checkpoint")
        parity = check_parity(Path(scratch) / GRAPH, reference.cases())
        serving = Serving(
            name=recipe.name,
            version=recipe.version,
            precision=recipe.precision,
            labels=checkpoint.labels,
            options=Options(top_k=recipe.top_k),
            **{"text" if recipe.task == "sentiment" else "image": reference.settings},
        )
        members: dict[PurePosixPath, mar.Source] = {
            **_code(recipe),
            MODEL / "serving.json": serving.to_json(),
            MODEL / "config.json": dump_json({k: v for k, v in checkpoint.config.items() if k != "_name_or_path"}),
            MODEL / GRAPH: Path(scratch) / GRAPH,
            MODEL / WEIGHTS: Path(scratch) / WEIGHTS,
            PurePosixPath(manifest.CONFIG_FILE): manifest.model_config(recipe),
            PurePosixPath(manifest.REQUIREMENTS_FILE): manifest.requirements(recipe.task),
            PurePosixPath(mar.MANIFEST): manifest.manifest(recipe, f"{recipe.task}.py", checkpoint.source),
        }
        members |= {MODEL / name: content for name, content in reference.preprocessing().items()}
        if nutrition:
            members[MODEL / "nutrition.json"] = dump_json(nutrition)
        progress("writing the archive")
        path = out / f"{recipe.name}.mar"
        written = mar.write(path, members)
    return Built(path, path.stat().st_size, len(written), parity)


def _reference(recipe: Recipe, checkpoint: Any) -> Any:
    from marsmith.reference import ImageReference, TextReference  # torch and transformers: seconds

    if recipe.task == "sentiment":
        return TextReference(checkpoint, recipe.normalise)
    return ImageReference(checkpoint)


def _code(recipe: Recipe) -> dict[PurePosixPath, mar.Source]:
    """The handlers package, and its module for the task at the archive's root, where TorchServe looks."""
    tree = handlers_tree()
    code: dict[PurePosixPath, mar.Source] = {
        PurePosixPath("handlers", file.name): file for file in sorted(tree.glob("*.py"))
    }
    return code | {PurePosixPath(f"{recipe.task}.py"): tree / f"{recipe.task}.py"}


def _nutrition(recipe: Recipe) -> dict[str, dict[str, object]]:
    """The nutrition table by label: numbers as floats per 100 g, what is unknown left out. Raises RecipeError."""
    if recipe.nutrition is None:
        return {}
    file = recipe.directory / recipe.nutrition
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            return {row["label"]: _nutrition_row(row) for row in csv.DictReader(stream, strict=True)}
    except (OSError, ValueError, KeyError, csv.Error) as error:
        raise RecipeError(f"The nutrition table {file} cannot be used: {error}.") from None


def _nutrition_row(row: dict[str, str]) -> dict[str, object]:
    if None in row or None in row.values():
        raise ValueError(f"the row of {row['label']} has more or fewer cells than the header")
    per_100g = {key: float(value) for key, value in row.items() if key.endswith(("_g", "_kcal")) and value}
    if not all(map(math.isfinite, per_100g.values())):
        raise ValueError(f"the row of {row['label']} has a number that is not finite")
    serving_g = per_100g.pop("serving_g", None)
    return {
        "food": row["food"],
        "per_100g": per_100g,
        "serving_g": serving_g,
        "source": row["source"],
        "source_id": row["source_id"],
    }
