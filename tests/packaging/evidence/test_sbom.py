"""The bill of materials says what is in the archive, holds CycloneDX's own schema, and is the same everywhere."""

import json
import os
import shutil
import subprocess
import sys
from email.message import Message
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion

from marsmith.errors import ArchiveError
from marsmith.evidence import sbom as module
from marsmith.evidence.sbom import sbom
from marsmith.ground.files import file_sha256
from marsmith.recipe.checkpoint import Checkpoint
from marsmith.recipe.manifest import requirements
from marsmith.recipe.recipe import Recipe
from tests.tiny import write_recipe

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {"model/model.weights": "cd" * 32, "model/model.onnx": "ab" * 32}
# What a bill of another process is compared by: the recipe's directory is its argument.
PRINT_BILL = f"""
import sys
from pathlib import Path
from marsmith.recipe.checkpoint import resolve
from marsmith.recipe.manifest import requirements
from marsmith.recipe.recipe import Recipe
from marsmith.evidence.sbom import sbom
recipe = Recipe.load(Path(sys.argv[1]))
sys.stdout.buffer.write(sbom(recipe, resolve(recipe), requirements(recipe), {FILES}))
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return Recipe.load(
        write_recipe(tmp_path, version="2.1", description="Reads tweets.", license="cc-by-4.0 and mit", base="org/base")
    )


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path, "local", {}, ["a", "b", "c"])


def bill(recipe: Recipe, checkpoint: Checkpoint, pins: bytes = b"", files: dict[str, str] = FILES) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(sbom(recipe, checkpoint, pins, files))
    return document


def declared(monkeypatch: pytest.MonkeyPatch, *fields: tuple[str, str]) -> None:
    """Let every distribution be installed as 1.0 with these fields in its metadata."""
    message = Message()
    for name, value in (("Version", "1.0"), *fields):
        message[name] = value
    monkeypatch.setattr(module, "metadata", lambda name: message)


def test_the_validator_of_cyclonedx_accepts_the_bill(recipe: Recipe, checkpoint: Checkpoint) -> None:
    from cyclonedx.validation.json import JsonStrictValidator

    text = sbom(recipe, checkpoint, requirements(recipe), FILES).decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert json.loads(text)["specVersion"] == "1.6"


def test_the_bill_is_of_the_model_that_the_recipe_describes(recipe: Recipe, checkpoint: Checkpoint) -> None:
    model = bill(recipe, checkpoint)["metadata"]["component"]
    assert (model["type"], model["name"], model["version"]) == ("machine-learning-model", "tiny", "2.1")
    assert model["description"] == "Reads tweets."
    assert model["licenses"] == [{"acknowledgement": "declared", "expression": "CC-BY-4.0 AND MIT"}]
    properties = {entry["name"]: entry["value"] for entry in model["properties"]}
    assert properties == {"marsmith:labels": "3", "marsmith:precision": "fp32", "marsmith:task": "sentiment"}


def test_what_the_recipe_does_not_state_is_left_out(tmp_path: Path, checkpoint: Checkpoint) -> None:
    model = bill(Recipe.load(write_recipe(tmp_path)), checkpoint)["metadata"]["component"]
    assert not {"description", "licenses", "pedigree"} & set(model)


@pytest.mark.parametrize(
    ("licence", "entry"),
    [
        ("apache-2.0", {"license": {"id": "Apache-2.0", "acknowledgement": "declared"}}),
        ("LicenseRef-Ours", {"expression": "LicenseRef-Ours", "acknowledgement": "declared"}),
    ],
)
def test_a_licence_is_an_id_where_spdx_has_one(
    tmp_path: Path, checkpoint: Checkpoint, licence: str, entry: dict[str, Any]
) -> None:
    recipe = Recipe.load(write_recipe(tmp_path, license=licence))
    assert bill(recipe, checkpoint)["metadata"]["component"]["licenses"] == [entry]


def test_the_digests_are_those_of_the_files(recipe: Recipe, checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"graph")
    files = {"model/model.onnx": file_sha256(tmp_path / "model.onnx")}
    (component,) = bill(recipe, checkpoint, files=files)["metadata"]["component"]["components"]
    # printf graph | sha256sum
    sha256 = "eef93e1d14482804277fca0172464032d1a4fdbcc338524059fa1e861454ad4d"
    assert (component["name"], component["hashes"]) == ("model/model.onnx", [{"alg": "SHA-256", "content": sha256}])


def test_the_base_is_an_ancestor(recipe: Recipe, checkpoint: Checkpoint) -> None:
    (ancestor,) = bill(recipe, checkpoint)["metadata"]["component"]["pedigree"]["ancestors"]
    assert ancestor == {
        "type": "machine-learning-model",
        "group": "org",
        "name": "base",
        "purl": "pkg:huggingface/org/base",
    }


def test_a_hub_checkpoint_is_an_ancestor_beside_its_base(recipe: Recipe, tmp_path: Path) -> None:
    from_hub = Checkpoint(tmp_path, f"Owner/Fine_Tuned@{COMMIT}", {}, ["a"])
    ancestors = bill(recipe, from_hub)["metadata"]["component"]["pedigree"]["ancestors"]
    assert sorted(ancestor["purl"] for ancestor in ancestors) == [
        f"pkg:huggingface/Owner/Fine_Tuned@{COMMIT}",
        "pkg:huggingface/org/base",
    ]


def test_the_components_are_the_handlers_and_the_pinned_packages(recipe: Recipe, checkpoint: Checkpoint) -> None:
    components = bill(recipe, checkpoint, b"numpy==2.1.0\nOnnx_Runtime==1.0+cpu\n")["components"]
    assert [(component["name"], component["version"], component.get("purl")) for component in components] == [
        ("Onnx_Runtime", "1.0+cpu", "pkg:pypi/onnx-runtime@1.0%2Bcpu"),
        ("handlers", version("marsmith"), None),
        ("numpy", "2.1.0", "pkg:pypi/numpy@2.1.0"),
    ]


def test_the_model_depends_on_all_of_them_and_the_handlers_on_the_packages(
    recipe: Recipe, checkpoint: Checkpoint
) -> None:
    document = bill(recipe, checkpoint, b"numpy==2.1.0\npillow==12.0\n")
    graph = {entry["ref"]: entry.get("dependsOn", []) for entry in document["dependencies"]}
    packages = ["pkg:pypi/numpy@2.1.0", "pkg:pypi/pillow@12.0"]
    assert graph == {"model": ["handlers", *packages], "handlers": packages, packages[0]: [], packages[1]: []}


@pytest.mark.parametrize("pin", [b"numpy", b"numpy>=2", b"numpy=="])
def test_a_requirement_that_is_not_pinned_is_refused(recipe: Recipe, checkpoint: Checkpoint, pin: bytes) -> None:
    with pytest.raises(ArchiveError, match=r"^The requirement numpy.* is not pinned: write it as name==version\.$"):
        sbom(recipe, checkpoint, pin, FILES)


def test_what_cyclonedx_cannot_say_is_refused_in_one_sentence(recipe: Recipe, checkpoint: Checkpoint) -> None:
    with pytest.raises(ArchiveError, match=r"'no digest' does not match") as raised:
        sbom(recipe, checkpoint, b"", {"model/model.onnx": "no digest"})
    assert "\n" not in str(raised.value)


MIT = "License :: OSI Approved :: MIT License"
APACHE = "License :: OSI Approved :: Apache Software License"


@pytest.mark.parametrize(
    ("fields", "licences"),
    [
        ([("License-Expression", "BSD-3-Clause"), ("License", "MIT")], ["BSD-3-Clause"]),
        ([("License-Expression", "mit or apache-2.0")], ["MIT OR Apache-2.0"]),
        ([("License", "MIT"), ("Classifier", APACHE)], ["MIT"]),
        ([("License", "MIT License"), ("Classifier", "Topic :: Software Development"), ("Classifier", MIT)], ["MIT"]),
        ([("License", "Copyright (c) somebody\n\nPermission is hereby granted"), ("Classifier", APACHE)], []),
        ([("Classifier", MIT), ("Classifier", APACHE)], []),
        ([("License", "BSD")], []),
        ([], []),
    ],
)
def test_a_package_has_the_licence_of_its_metadata_where_that_is_clear(
    recipe: Recipe,
    checkpoint: Checkpoint,
    monkeypatch: pytest.MonkeyPatch,
    fields: list[tuple[str, str]],
    licences: list[str],
) -> None:
    declared(monkeypatch, *fields)
    (package,) = (entry for entry in bill(recipe, checkpoint, b"some==1.0")["components"] if entry["name"] == "some")
    found = [entry.get("expression") or entry["license"]["id"] for entry in package.get("licenses", [])]
    assert found == licences


def test_another_release_than_the_installed_one_has_no_licence(
    recipe: Recipe, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared(monkeypatch, ("License-Expression", "MIT"))
    (package,) = (entry for entry in bill(recipe, checkpoint, b"some==2.0")["components"] if entry["name"] == "some")
    assert "licenses" not in package


def test_a_package_that_is_not_installed_has_no_licence(recipe: Recipe, checkpoint: Checkpoint) -> None:
    components = bill(recipe, checkpoint, b"no-such-package==1.0")["components"]
    assert "licenses" not in next(entry for entry in components if entry["name"] == "no-such-package")


def test_neither_the_clock_nor_chance_nor_order_shows(recipe: Recipe, checkpoint: Checkpoint) -> None:
    first = sbom(recipe, checkpoint, b"numpy==2.1.0\npillow==12.0\n", FILES)
    again = sbom(recipe, checkpoint, b"pillow==12.0\nnumpy==2.1.0\n", dict(reversed(FILES.items())))
    assert first == again
    assert "timestamp" not in json.loads(first)["metadata"]


def test_the_serial_number_follows_the_content(recipe: Recipe, checkpoint: Checkpoint) -> None:
    one, other = (bill(recipe, checkpoint, pin)["serialNumber"] for pin in (b"numpy==2.1.0", b"numpy==2.1.1"))
    assert one.startswith("urn:uuid:")
    assert one != other


@pytest.mark.slow
def test_another_machine_writes_the_same_bytes(sentiment_recipe: Path, tmp_path: Path) -> None:
    """Another directory, user, time zone, locale, hash seed and working directory."""
    clone = Path(shutil.copytree(sentiment_recipe.parent, tmp_path / "zebulon"))

    def bill_of(directory: Path, **environment: str) -> bytes:
        return subprocess.run(
            [sys.executable, "-c", PRINT_BILL, directory],
            env={**os.environ, **environment},
            cwd=directory,
            capture_output=True,
            check=True,
        ).stdout

    here = bill_of(sentiment_recipe.parent, TZ="UTC", PYTHONHASHSEED="1")
    user = {"HOME": str(tmp_path), "USER": "zebulon", "LOGNAME": "zebulon", "HOSTNAME": "zebulon"}
    there = bill_of(clone, TZ="Pacific/Chatham", PYTHONHASHSEED="2", LC_ALL="C", **user)
    assert there == here
    assert b"zebulon" not in there
    assert str(sentiment_recipe.parent).encode() not in here
    assert b"python" not in here.lower()
