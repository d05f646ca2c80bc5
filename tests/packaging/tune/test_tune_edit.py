"""A recipe that is changed for its author still reads as the author wrote it."""

from pathlib import Path
from typing import Any

import pytest

from marsmith.errors import RecipeError
from marsmith.recipe.recipe import Recipe, Serving
from marsmith.tune.edit import check_editable, edited, write

RECIPE = """\
# Tweets.
name = "tiny"   # as in the URL
task = "sentiment"
checkpoint = "."

[serving]
# One worker is enough.
workers = 1
batch_size = 16 # as measured in May

[[samples]]
text = "ok # not a comment"
"""


def load(directory: Path, text: str = RECIPE) -> tuple[Recipe, Path]:
    file = directory / "recipe.toml"
    file.write_bytes(text.encode())
    return Recipe.load(file), file


def with_serving(recipe: Recipe, **keys: Any) -> Recipe:
    return recipe.model_copy(update={"serving": recipe.serving.model_copy(update=keys)})


def test_only_the_values_change(tmp_path: Path) -> None:
    recipe, file = load(tmp_path)
    found = edited(recipe, file, with_serving(recipe, workers=2, batch_size=8))
    expected = RECIPE.replace("workers = 1", "workers = 2").replace("batch_size = 16 #", "batch_size = 8 #")
    assert found.toml.decode() == expected
    assert (found.serving.workers, found.serving.batch_size) == (2, 8)


def test_a_new_key_stands_in_its_table(tmp_path: Path) -> None:
    recipe, file = load(tmp_path)
    found = edited(recipe, file, with_serving(recipe, max_batch_delay_ms=2, threads=3))
    assert found.toml.decode().index("threads = 3") < found.toml.decode().index("[[samples]]")
    assert (found.serving.threads, found.serving.max_batch_delay_ms) == (3, 2)
    assert found.samples == recipe.samples


def test_a_key_of_the_recipe_stands_before_its_tables(tmp_path: Path) -> None:
    recipe, file = load(tmp_path)
    after = recipe.model_copy(update={"version": "2.0"})
    found = edited(recipe, file, after)
    assert found.version == "2.0"
    assert found.toml.decode().index("version") < found.toml.decode().index("[serving]")


def test_a_key_that_is_no_longer_wanted_goes(tmp_path: Path) -> None:
    recipe, file = load(tmp_path, RECIPE.replace("workers = 1", "workers = 1\nthreads = 2"))
    assert recipe.serving.threads == 2
    assert edited(recipe, file, with_serving(recipe, threads=None)).toml.decode() == RECIPE


@pytest.mark.parametrize(
    "text",
    [
        'name = "tiny"\ntask = "sentiment"\ncheckpoint = "."\n',
        'name = "tiny"\ntask = "sentiment"\ncheckpoint = "."\nserving = {workers = 1}\n',
        'name = "tiny"\ntask = "sentiment"\ncheckpoint = "."\nserving.workers = 1 # one\n',
        'name = "tiny"\r\ntask = "sentiment"\r\ncheckpoint = "."\r\n[serving]\r\nworkers = 1\r\n',
        '[serving]\nworkers = 1\n[[samples]]\ntext = "a"\n',
        "[serving]\nworkers = 1",
        "serving.workers = 1",
    ],
    ids=[
        "no table",
        "inline table",
        "dotted keys",
        "CRLF",
        "tables alone",
        "no line end",
        "no line end after dotted keys",
    ],
)
def test_any_form_of_the_table_will_do(tmp_path: Path, text: str) -> None:
    if not text.startswith("name"):
        text = 'name = "tiny"\ntask = "sentiment"\ncheckpoint = "."\n' + text
    recipe, file = load(tmp_path, text)
    found = edited(recipe, file, with_serving(recipe, workers=2, batch_size=4))
    assert found.serving == Serving(workers=2, batch_size=4)
    assert found.toml.startswith(text.encode()[:20])
    assert found.toml.count(b"\r\n") in (0, found.toml.count(b"\n"))
    check_editable(recipe, file)


def test_what_does_not_change_is_left_as_it_is(tmp_path: Path) -> None:
    recipe, file = load(tmp_path)
    assert edited(recipe, file, recipe).toml == recipe.toml


def test_a_value_that_no_recipe_may_have_is_refused(tmp_path: Path) -> None:
    recipe, file = load(tmp_path)
    with pytest.raises(RecipeError, match=r"serving\.workers must be 1 or more"):
        edited(recipe, file, with_serving(recipe, workers=0))
    assert file.read_text() == RECIPE


def test_the_file_is_replaced_and_a_link_stays_one(tmp_path: Path) -> None:
    recipe, file = load(tmp_path)
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    write(recipe, edited(recipe, link, with_serving(recipe, workers=2)), link)
    assert link.is_symlink()
    assert Recipe.load(file).serving.workers == 2
    assert {path.name for path in tmp_path.iterdir()} == {"recipe.toml", "link.toml"}


def test_a_recipe_that_was_changed_meanwhile_stays(tmp_path: Path) -> None:
    recipe, file = load(tmp_path)
    after = edited(recipe, file, with_serving(recipe, workers=2))
    file.write_text(RECIPE + "# a thought\n")
    with pytest.raises(RecipeError, match="was changed meanwhile, so it stays as it is"):
        write(recipe, after, file)
    assert file.read_text() == RECIPE + "# a thought\n"


def test_new_keys_stand_behind_the_last_one_and_not_behind_a_comment_on_what_follows(tmp_path: Path) -> None:
    text = RECIPE.replace("\n[serving]", "\n# How it is served.\n[serving]").replace(
        "[[samples]]", "# Said.\n[[samples]]"
    )
    recipe, file = load(tmp_path, text)
    found = edited(recipe, file, with_serving(recipe, threads=3).model_copy(update={"precision": "bf16"}))
    expected = text.replace('checkpoint = "."\n', 'checkpoint = "."\nprecision = "bf16"\n')
    expected = expected.replace("# as measured in May\n", "# as measured in May\nthreads = 3\n")
    assert found.toml.decode() == expected


def test_a_recipe_whose_tables_would_be_moved_is_refused(tmp_path: Path) -> None:
    text = f'{RECIPE}[accuracy]\ninputs = "texts.txt"\n[[samples]]\ntext = "b"\n'
    recipe, file = load(tmp_path, text)
    after = edited(recipe, file, with_serving(recipe, workers=2))  # to be built, it will do
    with pytest.raises(RecipeError, match=r"cannot be changed for you \(its tables would change their order"):
        check_editable(recipe, file)
    with pytest.raises(RecipeError, match="its tables would change their order"):
        write(recipe, after, file)
    assert file.read_text() == text


def test_a_read_only_recipe_is_refused_before_and_after_the_measuring(tmp_path: Path) -> None:
    recipe, file = load(tmp_path)
    after = edited(recipe, file, with_serving(recipe, workers=2))
    check_editable(recipe, file)
    file.chmod(0o444)
    with pytest.raises(RecipeError, match="is read-only: make it writable, or leave --write out"):
        check_editable(recipe, file)
    with pytest.raises(RecipeError, match="is read-only"):
        write(recipe, after, file)
    assert file.read_text() == RECIPE


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_a_recipe_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    recipe, file = load(tmp_path)
    file.chmod(mode)
    write(recipe, edited(recipe, file, with_serving(recipe, workers=2)), file)
    assert file.stat().st_mode & 0o777 == mode
