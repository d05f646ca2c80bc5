"""The bill of an image: Debian and Python packages and models, valid CycloneDX, the same for the same image."""

import json
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion

from marsmith.image.archive import read_image
from marsmith.image.packages import is_record
from marsmith.image.sbom import image_sbom
from marsmith.image.tree import read_tree
from tests.packaging.image.images import Files, good, oci_archive


def bill(tmp_path: Path, *more: Files) -> bytes:
    image = read_image(oci_archive(tmp_path / "image.tar", good(), *more))
    return image_sbom(image, read_tree(image, is_record), "marsmith:test")


def components(tmp_path: Path, *more: Files) -> dict[str, Any]:
    return {one["bom-ref"]: one for one in json.loads(bill(tmp_path, *more)).get("components", [])}


def test_the_validator_of_cyclonedx_accepts_it(tmp_path: Path) -> None:
    from cyclonedx.validation.json import JsonStrictValidator

    text = bill(tmp_path).decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert bill(tmp_path).decode() == text


def test_it_is_of_the_image(tmp_path: Path) -> None:
    document = json.loads(bill(tmp_path))
    whole = document["metadata"]["component"]
    assert (whole["type"], whole["name"]) == ("container", "marsmith:test")
    assert whole["version"] == read_image(tmp_path / "image.tar").digest
    depends = {one["ref"]: one.get("dependsOn", []) for one in document["dependencies"]}
    assert len(depends["image"]) == 3


def test_packages_have_their_purls(tmp_path: Path) -> None:
    found = components(tmp_path)
    libc = "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13?arch=arm64&distro=debian-12"
    assert set(found) == {libc, "pkg:pypi/numpy@2.1.0", "pkg:pypi/pillow@12.0"}
    assert found[libc]["version"] == "2.36-9+deb12u13"
    assert found["pkg:pypi/numpy@2.1.0"]["licenses"] == [
        {"license": {"id": "BSD-3-Clause", "acknowledgement": "declared"}}
    ]
    assert "licenses" not in found["pkg:pypi/pillow@12.0"]


def test_what_a_later_layer_removes_is_not_in_it(tmp_path: Path) -> None:
    assert set(components(tmp_path, {"opt/.wh.marsmith": b"", "var/lib/dpkg/status": b""})) == set()


def test_models_are_in_it(tmp_path: Path) -> None:
    found = components(tmp_path, {"opt/model-store/food.mar": b"1"})
    assert found["opt/model-store/food.mar"]["type"] == "machine-learning-model"
    assert found["opt/model-store/food.mar"]["name"] == "food.mar"


def test_distroless_images_keep_a_file_for_each_package(tmp_path: Path) -> None:
    part = b"Package: tzdata\nVersion: 2025b\nArchitecture: all\n"
    files: Files = {"var/lib/dpkg/status.d/tzdata": part, "var/lib/dpkg/status.d/tzdata.md5sums": b"00  x\n"}
    assert "pkg:deb/debian/tzdata@2025b?arch=all&distro=debian-12" in components(tmp_path, files)
