"""Names that some system or TorchServe keeps for itself are refused before anything is read or written."""

from pathlib import Path

import pytest

from marsmith.archiver import archive
from marsmith.errors import ArchiveError, LintError, MarsmithError, RecipeError
from marsmith.ground.names import unsafe
from marsmith.recipe.recipe import Recipe
from tests.packaging.lint.trees import HANDLER

DEVICES = ["CON", "con", "NUL", "Aux", "prn", "COM1", "lpt9", "nul.v2", "CON.1.0"]


def refused(tmp_path: Path, **changes: str) -> str:
    arguments = {"model_name": "m", "version": "1.0", "handler": str(tmp_path / "handler.py")} | changes
    (tmp_path / "handler.py").write_text(HANDLER)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(MarsmithError) as caught:
        archive(**arguments, export_path=tmp_path / "out")  # type: ignore[arg-type]
    assert sorted(tmp_path.rglob("*")) == before
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize("name", DEVICES)
def test_a_model_is_not_called_like_a_device(tmp_path: Path, name: str) -> None:
    assert f"The model name {name} is a device's name on Windows" in refused(tmp_path, model_name=name)


@pytest.mark.parametrize("name", ["console", "com", "com10", "null", "auxiliary", "my-con", "con-1"])
def test_names_that_only_begin_like_a_device_are_fine(tmp_path: Path, name: str) -> None:
    (tmp_path / "handler.py").write_text(HANDLER)
    archive(model_name=name, version="1.0", handler=str(tmp_path / "handler.py"), export_path=tmp_path)
    assert (tmp_path / f"{name}.mar").is_file()


def test_a_name_and_a_version_have_a_length(tmp_path: Path) -> None:
    assert "has 300 characters: use 64 at most" in refused(tmp_path, model_name="m" * 300)
    assert "has 300 characters: use 64 at most" in refused(tmp_path, version="1" * 300)


@pytest.mark.parametrize("version", ["1.0\n", "1.0\x1b[2J", "1\u202e0", "\x00", "1\x7f"])
def test_control_characters_are_refused(tmp_path: Path, version: str) -> None:
    assert "control characters" in refused(tmp_path, version=version)
    assert "control characters" in refused(tmp_path, handler=f"{version}.py")
    assert "cannot be a file's" in refused(tmp_path, model_name=f"m{version}")


def test_the_version_that_means_all_of_them_is_refused(tmp_path: Path) -> None:
    assert "all versions together" in refused(tmp_path, version="all")


@pytest.mark.parametrize("file", ["con.py", "NUL.py", "aux.tar.py"])
def test_a_handler_is_not_called_like_a_device(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text(HANDLER)
    with pytest.raises(LintError, match="is a device's name on Windows"):
        archive(model_name="m", version="1.0", handler=str(tmp_path / file), export_path=tmp_path)


@pytest.mark.parametrize("file", ["nul", "a/com1.json", "a./b", "a /b", "b.", "b ", "COM\u00b9"])
def test_a_member_that_windows_cannot_hold_is_refused(file: str) -> None:
    assert unsafe(file)


@pytest.mark.parametrize(
    ("name", "version", "says"),
    [
        ("CON", "1.0", "'CON' is a device's name on Windows"),
        ("nul", "1.0", "'nul' is a device's name on Windows"),
        ("m", "all", "'all' is what TorchServe takes for all versions"),
        ("m" * 65, "1.0", "name may have 64 characters at most"),
        ("m", "1" * 300, "version may have 64 characters at most"),
    ],
)
def test_a_recipe_is_held_to_the_same(tmp_path: Path, name: str, version: str, says: str) -> None:
    toml = f'name = "{name}"\nversion = "{version}"\ntask = "custom"\nhandler = "h.py"\n'
    with pytest.raises(RecipeError, match=says):
        Recipe.parse(toml.encode(), tmp_path / "recipe.toml")


def test_an_error_of_a_name_is_an_archive_error(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError):
        archive(model_name="CON", version="1.0", handler="nowhere.py", export_path=tmp_path)
