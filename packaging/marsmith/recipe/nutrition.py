"""The nutrition table of a food recipe: a CSV file becomes nutrition.json."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from marsmith.errors import RecipeError
from marsmith.ground.files import read_lines
from marsmith.ground.placeholders import what_stands_at

SERVING_DECIMALS = 3


def read_table(file: Path) -> dict[str, dict[str, object]]:
    """The nutrition table by label: numbers as floats, per 100 g and per serving, what is unknown left out.

    `per_serving` is None where the serving is unknown. Raises RecipeError.
    """
    if kind := what_stands_at(file):
        raise RecipeError(f"The nutrition table {file} is {kind}.")
    try:
        # Rows end where lines do: the csv module would end one at a lone carriage return too.
        rows = (f"{line}\n" for line in read_lines(file))
        return {row["label"]: _row(row) for row in csv.DictReader(rows, strict=True)}
    except (OSError, ValueError, KeyError, csv.Error) as error:
        raise RecipeError(f"The nutrition table {file} cannot be used: {error}.") from None


def _row(row: dict[str, str]) -> dict[str, object]:
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
        "per_serving": None if serving_g is None else _of(serving_g, per_100g),
        "source": row["source"],
        "source_id": row["source_id"],
        "licence": row.get("licence") or None,
    }


def _of(grams: float, per_100g: dict[str, float]) -> dict[str, float]:
    return {key: round(value * grams / 100, SERVING_DECIMALS) for key, value in per_100g.items()}
