"""Names at the archive's root that hide other modules, or are hidden by them."""

import pytest

from tests.packaging.lint.trees import codes, lint_with, only


@pytest.mark.parametrize(
    "member",
    [
        "torch.py",
        "inspect.py",
        "transformers/__init__.py",
        "numpy.so",
        "PIL/__init__.py",
        "yaml.py",
        "sitecustomize.py",
    ],
)
def test_a_module_that_takes_anothers_place_is_found(member: str) -> None:
    """TorchServe puts the archive before everything that is installed."""
    finding = only(lint_with({member: ""}), "M108")
    assert finding.where == member


@pytest.mark.parametrize("member", ["code/inference.py", "site/deep/helpers.py"])
def test_a_folder_that_gives_way_to_another_module_is_a_warning(member: str) -> None:
    """A folder without __init__.py is only a package where no other module of its name is found."""
    finding = only(lint_with({member: ""}), "M109")
    assert finding.where == f"{member.split('/')[0]}/"


@pytest.mark.parametrize(
    "member",
    [
        "handlers/__init__.py",
        "handlers/json.py",
        "model/torch.py",
        "model/config.json",
        "inspect.json",
        "torch/weights.bin",
    ],
)
def test_names_that_nobody_imports_are_fine(member: str) -> None:
    assert codes(lint_with({member: "{}"})) == []
