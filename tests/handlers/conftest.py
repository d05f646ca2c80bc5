"""Tiny checkpoints, and the archives that marsmith builds of them: once for the whole run."""

from pathlib import Path

import pytest

from tests import tiny

NUTRITION = """label,food,energy_kcal,protein_g,serving_g,source,source_id
ramen,"Soup, ramen",63,3.5,240,USDA,1
姓名,unknown dish,12.5,,,test,2
"""
# Not in alphabetical order, and one dish that the table does not know.
DISHES = ("ramen", "apple pie", "姓名", "sushi")


@pytest.fixture(scope="session", autouse=True)
def _no_network() -> None:
    """Nothing here may ask the Hugging Face hub."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def text_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By model type."""
    root = tmp_path_factory.mktemp("checkpoints")
    return {
        "bert": tiny.sentiment_checkpoint(root / "bert", "bert"),
        "roberta": tiny.sentiment_checkpoint(root / "roberta", "roberta"),
    }


@pytest.fixture(scope="session")
def image_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.food_checkpoint(tmp_path_factory.mktemp("food"), DISHES)


@pytest.fixture(scope="session")
def text_roots(text_checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Unpacked archives by model type; the RoBERTa one normalises tweets."""
    out = tmp_path_factory.mktemp("text-archives")
    recipes = {
        name: tiny.write_recipe(path, name=name, normalise="tweet" if name == "roberta" else "none")
        for name, path in text_checkpoints.items()
    }
    return {name: unpacked(recipe, out) for name, recipe in recipes.items()}


@pytest.fixture(scope="session")
def image_root(image_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked archive with a nutrition table."""
    (image_checkpoint / "nutrition.csv").write_text(NUTRITION, encoding="utf-8")
    recipe = tiny.write_recipe(image_checkpoint, name="food", task="food", nutrition="nutrition.csv", top_k=3)
    return unpacked(recipe, tmp_path_factory.mktemp("image-archive"))


def unpacked(recipe: Path, out: Path) -> Path:
    from marsmith import archive
    from marsmith.build import build

    root = out / f"{recipe.parent.name}-root"
    archive.extract(build(recipe, out).path, root)
    return root
