"""The recipe says what is wrong with it in one sentence."""

from pathlib import Path

import pytest

from marsmith.errors import RecipeError
from marsmith.recipe import Recipe

MINIMAL = 'name = "m"\ntask = "sentiment"\ncheckpoint = "."\n'


def write(directory: Path, text: str) -> Path:
    file = directory / "recipe.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_minimal_recipe_gets_explicit_serving_values(tmp_path: Path) -> None:
    recipe = Recipe.load(write(tmp_path, MINIMAL))
    assert (recipe.version, recipe.precision, recipe.serving.workers, recipe.serving.batch_size) == (
        "1.0",
        "fp32",
        1,
        16,
    )


def test_a_directory_stands_for_its_recipe(tmp_path: Path) -> None:
    write(tmp_path, MINIMAL)
    assert Recipe.load(tmp_path).directory == tmp_path.resolve()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MINIMAL + "presicion = 'fp32'", "presicion that nobody reads, did you mean precision?"),
        (MINIMAL + "[serving]\nbatchsize = 4", "serving.batchsize that nobody reads, did you mean batch_size?"),
        ('task = "sentiment"\ncheckpoint = "."', "the key name is missing"),
        (MINIMAL.replace('"m"', '"a..b"'), "name may hold letters"),  # TorchServe refuses URLs with ".."
        (MINIMAL.replace('"m"', '"../x y"'), "name may hold letters"),
        (MINIMAL + 'version = "1/2"', "version may hold letters"),
        (MINIMAL + "[serving]\nmax_batch_delay_ms = 0", "serving.max_batch_delay_ms"),  # TorchServe reads 0 as 100
        (MINIMAL + "[serving]\nworkers = 0", "serving.workers"),  # serve#2038: no minimum above a maximum
        (MINIMAL + 'labels = ["a", "a"]', "labels must be distinct"),
        (MINIMAL + 'nutrition = "n.csv"', "nutrition is for the food task only"),
        (MINIMAL + '[[samples]]\nexpect = "a"', "give either text or image"),
        (MINIMAL + "name", "cannot be read"),
    ],
)
def test_a_wrong_recipe_is_refused_with_the_key_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(RecipeError) as raised:
        Recipe.load(write(tmp_path, text))
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_recipe_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"There is no recipe at .*recipe\.toml"):
        Recipe.load(tmp_path)
