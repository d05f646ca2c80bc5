"""OCI and docker archives are read as images; a damaged one is refused in one sentence."""

import gzip
import json
import tarfile
from pathlib import Path

import pytest

from marsmith.errors import ImageError
from marsmith.image.archive import layer_members, read_image
from tests.packaging.image.images import (
    docker_archive,
    good,
    layer,
    link,
    oci_archive,
    oci_index,
    oci_members,
)


def names(path: Path, number: int = 0) -> list[str]:
    image = read_image(path)
    with layer_members(image, image.layers[number]) as members:
        return [member.name for member in members]


def test_both_formats_hold_the_same_image(tmp_path: Path) -> None:
    lower, upper = {"a": b"1"}, {"b": b"22"}
    oci = read_image(oci_archive(tmp_path / "oci.tar", lower, upper))
    docker = read_image(docker_archive(tmp_path / "docker.tar", lower, upper))
    assert (oci.format, docker.format) == ("OCI", "docker")
    assert oci.architecture == docker.architecture == "arm64"
    assert [one.diff_id for one in oci.layers] == [one.diff_id for one in docker.layers]
    assert [one.created_by for one in docker.layers] == ["STEP 1", "STEP 2"]
    assert [one.size for one in docker.layers] == [None, None]
    assert [one.size for one in oci.layers] == [len(gzip.compress(layer(one), mtime=0)) for one in (lower, upper)]
    assert docker.config["User"] == "10001"
    assert names(tmp_path / "oci.tar", 1) == names(tmp_path / "docker.tar", 1) == ["b"]


def test_steps_without_a_layer_do_not_shift_what_made_the_others(tmp_path: Path) -> None:
    image = read_image(docker_archive(tmp_path / "i.tar", {"a": b"1"}, history=["ENV A=1"]))
    assert image.layers[0].created_by == "STEP 1"
    assert image.history == ("STEP 1", "ENV A=1")


def test_the_digest_of_an_oci_archive_is_its_manifests(tmp_path: Path) -> None:
    members = oci_members({"a": b"1"})
    (entry,) = json.loads(members["index.json"])["manifests"]
    assert read_image(oci_archive(tmp_path / "i.tar", {"a": b"1"})).digest == entry["digest"]


def test_of_several_images_the_platform_chooses_and_attestations_are_none(tmp_path: Path) -> None:
    arm, intel = oci_members({"a": b"1"}), oci_members({"b": b"2"}, architecture="amd64")
    path = oci_index(tmp_path / "both.tar", arm, intel, attestation=True)
    assert read_image(path, "amd64").architecture == "amd64"
    assert read_image(path, "arm64").architecture == "arm64"
    with pytest.raises(ImageError, match="holds 2 images that may be meant: choose one with --platform"):
        read_image(path)
    assert read_image(oci_index(tmp_path / "one.tar", arm, attestation=True)).architecture == "arm64"


def test_the_links_of_an_older_docker_are_followed(tmp_path: Path) -> None:
    path = docker_archive(tmp_path / "new.tar", {"a": b"1"})
    with tarfile.open(path) as tar:
        members = {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]
    (manifest,) = json.loads(members["manifest.json"])
    (name,) = manifest["Layers"]
    manifest["Layers"] = ["old/layer.tar"]
    old = members | {"manifest.json": json.dumps([manifest]).encode()}
    (tmp_path / "old.tar").write_bytes(layer({**old, "old/layer.tar": link(f"../{name}")}))
    assert names(tmp_path / "old.tar") == ["a"]


@pytest.mark.parametrize("victim", ["manifest", "config"])
def test_a_changed_paper_is_refused(tmp_path: Path, victim: str) -> None:
    members = oci_members(good())
    for name, data in members.items():
        if name.startswith("blobs/") and (b'"layers": [' in data) == (victim == "manifest") and data[:1] == b"{":
            members[name] = data + b" "
    (tmp_path / "i.tar").write_bytes(layer(members))
    with pytest.raises(ImageError, match=r"was changed: write the image again"):
        read_image(tmp_path / "i.tar")


def test_a_changed_layer_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path = docker_archive(tmp_path / "i.tar", {"a": b"some text"})
    path.write_bytes(path.read_bytes().replace(b"some text", b"same text"))
    with pytest.raises(ImageError, match=r"is not the one that the image names"):
        names(path)


def test_a_layer_that_breaks_off_is_refused(tmp_path: Path) -> None:
    members = oci_members({"a": bytes(100_000)})
    blob = next(name for name, data in members.items() if data.startswith(b"\x1f\x8b"))
    members[blob] = members[blob][:60]
    (tmp_path / "i.tar").write_bytes(layer(members))
    with pytest.raises(ImageError, match=r"A layer of .* cannot be read"):
        names(tmp_path / "i.tar")


def test_zstd_is_named(tmp_path: Path) -> None:
    members = oci_members({"a": b"1"})
    blob = next(name for name, data in members.items() if data.startswith(b"\x1f\x8b"))
    members[blob] = b"\x28\xb5\x2f\xfd" + bytes(20)
    (tmp_path / "i.tar").write_bytes(layer(members))
    with pytest.raises(ImageError, match="compressed with zstd: write it with gzip"):
        names(tmp_path / "i.tar")


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"text")
    with pytest.raises(ImageError, match="cannot be read as an image"):
        read_image(tmp_path / "text")
    (tmp_path / "other.tar").write_bytes(layer({"a": b"1"}))
    with pytest.raises(ImageError, match="is no image: give an OCI archive"):
        read_image(tmp_path / "other.tar")
    with pytest.raises(ImageError, match="There is no image"):
        read_image(tmp_path / "missing.tar")


def test_an_archive_that_lacks_a_layer_or_holds_two_images_is_refused(tmp_path: Path) -> None:
    members = oci_members({"a": b"1"})
    blob = next(name for name, data in members.items() if data.startswith(b"\x1f\x8b"))
    del members[blob]
    (tmp_path / "i.tar").write_bytes(layer(members))
    with pytest.raises(ImageError, match="lacks its blobs/sha256/"):
        read_image(tmp_path / "i.tar")
    (tmp_path / "two.tar").write_bytes(layer({"manifest.json": json.dumps([{}, {}]).encode()}))
    with pytest.raises(ImageError, match="holds more than one image"):
        read_image(tmp_path / "two.tar")
