"""The whole build, with tools that only record what they are asked."""

import json
from pathlib import Path

import pytest

from marsmith.builder import Built as Archive
from marsmith.errors import ImageError, VerifyError
from marsmith.image.build import EPOCH, Options, build, build_arguments, source_date_epoch, what_may_differ
from marsmith.image.tools import Tool
from tests.packaging.image.fake_tools import FakeTools
from tests.packaging.image.images import good, oci_archive

FAILING = "STEP 4/9: RUN pip install\\nERROR: No matching distribution found for x\\nerror building at STEP\\n"


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def built_image(tmp_path: Path) -> Path:
    return oci_archive(tmp_path / "built.tar", good())


def test_the_image_is_built_written_and_billed(
    tools: FakeTools, papers: Path, tmp_path: Path, built_image: Path, sentiment_archive: Archive
) -> None:
    tools.image = str(built_image)
    tools.answers = {"build": {"keep": str(tmp_path / "context")}}
    tools.add("buildah")
    output = tmp_path / "out/image.oci.tar"
    output.parent.mkdir()
    made = build(Options([sentiment_archive.path], output, tag="m:1", base_image="localhost/base"))
    assert (made.tag, made.tool, made.models) == ("m:1", "buildah", ["sentiment"])
    assert output.read_bytes() == built_image.read_bytes()
    assert made.sbom == output.with_name("image.oci.cdx.json")
    bill = json.loads(made.sbom.read_text())
    assert bill["metadata"]["component"]["version"] == made.digest
    assert names(output.parent) == ["image.oci.cdx.json", "image.oci.tar"]
    building, pushing = tools.asked()
    assert "BASE_IMAGE=localhost/base" in building
    assert f"SOURCE_DATE_EPOCH={EPOCH}" in building
    assert "--pull-never" in building
    assert "LOCK=packaging/requirements-arm64.lock" in building
    assert pushing[3:5] == ["push", "m:1"]
    assert (tmp_path / "context/model-store/sentiment.mar").is_file()
    assert not Path(building[-1]).exists()


def test_without_an_output_nothing_is_written(tools: FakeTools, papers: Path) -> None:
    tools.add("podman")
    made = build(Options())
    assert (made.output, made.sbom, made.size) == (None, None, 0)
    assert made.tag.startswith("marsmith:")
    assert [one[1] for one in tools.asked()] == ["build"]


def test_a_bill_alone_is_made_of_an_export(tools: FakeTools, papers: Path, tmp_path: Path, built_image: Path) -> None:
    tools.image = str(built_image)
    tools.add("podman")
    assert build(Options(sbom=tmp_path / "bill.json")).sbom == tmp_path / "bill.json"
    assert json.loads((tmp_path / "bill.json").read_text())["specVersion"] == "1.6"
    assert tools.asked()[1][1:4] == ["save", "--format", "docker-archive"]


@pytest.mark.parametrize("verb", ["build", "push"])
def test_a_tool_that_fails_leaves_nothing(tools: FakeTools, papers: Path, tmp_path: Path, verb: str) -> None:
    tools.answers = {verb: {"says": FAILING.replace("\\n", "\n"), "code": 1}}
    tools.add("buildah")
    output = tmp_path / "out/image.oci.tar"
    output.parent.mkdir()
    with pytest.raises(ImageError) as raised:
        build(Options(output=output))
    assert "ERROR: No matching distribution found for x (in STEP 4/9: RUN pip install)" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert names(output.parent) == []


def test_what_the_tool_wrote_must_be_an_image(tools: FakeTools, papers: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    tools.image = str(tmp_path / "text")
    tools.add("buildah")
    output = tmp_path / "out/image.oci.tar"
    output.parent.mkdir()
    with pytest.raises(ImageError, match="cannot be read as an image"):
        build(Options(output=output))
    assert names(output.parent) == []


def test_a_bad_archive_stops_before_anything_is_built(tools: FakeTools, papers: Path, tmp_path: Path) -> None:
    tools.add("buildah")
    (tmp_path / "bad.mar").write_bytes(b"bad")
    with pytest.raises(VerifyError, match=r"bad\.mar is not to be trusted"):
        build(Options([tmp_path / "bad.mar"]))
    assert tools.asked() == []


def test_an_output_that_cannot_be_is_refused_first(tools: FakeTools, papers: Path, tmp_path: Path) -> None:
    tools.add("buildah")
    with pytest.raises(ImageError, match="There is no directory"):
        build(Options(output=tmp_path / "no/image.tar"))
    with pytest.raises(ImageError, match="is a directory: name the file"):
        build(Options(output=tmp_path))
    assert tools.asked() == []


def test_wheels_switch_the_index_off(tools: FakeTools, tmp_path: Path) -> None:
    assert build_arguments(Options(wheels=tmp_path), EPOCH)["PIP_NO_INDEX"] == "1"
    assert "PIP_NO_INDEX" not in build_arguments(Options(), EPOCH)


def test_build_arguments_are_handed_on_and_checked(tools: FakeTools) -> None:
    arguments = build_arguments(Options(build_args=["PIP_INDEX_URL=https://p.example/wheels", "VERSION=9"]), EPOCH)
    assert arguments["PIP_INDEX_URL"] == "https://p.example/wheels"
    assert arguments["VERSION"] == "9"
    assert arguments["REVISION"] == "unknown"
    with pytest.raises(ImageError, match="write it as NAME=VALUE"):
        build_arguments(Options(build_args=["VERSION"]), EPOCH)


def test_a_password_in_a_build_argument_is_refused_and_not_repeated(tools: FakeTools) -> None:
    with pytest.raises(ImageError, match="PIP_INDEX_URL holds a password in an address") as raised:
        build_arguments(Options(build_args=["PIP_INDEX_URL=https://me:hunter2@p.example/wheels"]), EPOCH)
    assert "hunter2" not in str(raised.value)


def test_the_time_is_that_of_the_environment() -> None:
    assert source_date_epoch({}) == EPOCH
    assert source_date_epoch({"SOURCE_DATE_EPOCH": "7"}) == 7
    with pytest.raises(ImageError, match="SOURCE_DATE_EPOCH is 'today'"):
        source_date_epoch({"SOURCE_DATE_EPOCH": "today"})


def test_what_another_build_may_not_repeat_is_said() -> None:
    buildah, docker = Tool("buildah", "/b"), Tool("docker", "/d")
    pinned = Options(base_image="docker.io/library/debian@sha256:00")
    (always,) = what_may_differ(buildah, pinned)
    assert "history names intermediate images of buildah. The layers repeat." in always
    base, _ = what_may_differ(buildah, Options(base_image="localhost/base"))
    assert "localhost/base is no digest" in base
    (note,) = what_may_differ(docker, pinned)
    assert "the time of the build" in note
