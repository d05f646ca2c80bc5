"""Which tool is taken, and its command lines."""

from pathlib import Path

import pytest

from marsmith.errors import ImageError
from marsmith.image.tools import Job, Tool, archive_command, build_command, export_command, find_tool
from tests.packaging.image.fake_tools import FakeTools

BUILDAH = Tool("buildah", "/usr/bin/buildah")
PODMAN = Tool("podman", "/usr/bin/podman")
DOCKER = Tool("docker", "/usr/bin/docker")


def job(base: str = "docker.io/library/debian@sha256:00", output: Path | None = None) -> Job:
    arguments = {"BASE_IMAGE": base, "VERSION": "0.1"}
    return Job(Path("/c"), Path("/c/Dockerfile.arm64"), "linux/arm64", "m:1", arguments, 315532800, output)


def test_the_first_that_works_is_taken(tools: FakeTools) -> None:
    tools.add("podman", "buildah")
    assert find_tool().name == "podman"
    tools.add("docker")
    assert find_tool().name == "docker"
    assert find_tool("buildah") == Tool("buildah", str(tools.directory / "buildah"))


@pytest.mark.parametrize("verb", ["info", "version"])
def test_a_docker_without_an_engine_or_without_buildx_is_passed_over(tools: FakeTools, verb: str) -> None:
    tools.answers = {verb: {"code": 1}}
    tools.add("docker", "buildah")
    assert find_tool().name == "buildah"
    assert find_tool("docker").name == "docker"


def test_no_tool_is_one_sentence(tools: FakeTools) -> None:
    with pytest.raises(ImageError, match=r"^Neither docker with buildx .*: install one of them"):
        find_tool()
    with pytest.raises(ImageError, match="podman is not on PATH"):
        find_tool("podman")


def test_buildah_builds_in_a_chroot_in_dockers_format_at_one_time(tools: FakeTools) -> None:
    assert build_command(BUILDAH, job()) == [
        *("/usr/bin/buildah", "--storage-driver", "overlay", "build"),
        *(
            "--format",
            "docker",
            "--layers",
            "--no-cache",
            "--force-rm",
            "--timestamp",
            "315532800",
            "--isolation",
            "chroot",
        ),
        *("--platform", "linux/arm64", "--file", "/c/Dockerfile.arm64", "--tag", "m:1"),
        *("--build-arg", "BASE_IMAGE=docker.io/library/debian@sha256:00", "--build-arg", "VERSION=0.1"),
        "/c",
    ]


def test_a_base_image_of_this_machine_is_not_pulled(tools: FakeTools) -> None:
    assert "--pull-never" in build_command(BUILDAH, job("localhost/base"))
    assert "--pull=never" in build_command(PODMAN, job("localhost/base"))
    assert not any("pull" in one for one in build_command(PODMAN, job()))


def test_no_tool_is_told_to_be_quiet(tools: FakeTools) -> None:
    for tool in (BUILDAH, PODMAN, DOCKER):
        assert not {"-q", "--quiet"} & set(build_command(tool, job()))


def test_the_users_own_storage_and_isolation_stand(tools: FakeTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_DRIVER", "vfs")
    monkeypatch.setenv("BUILDAH_ISOLATION", "rootless")
    command = build_command(BUILDAH, job())
    assert command[1] == "build"
    assert command[command.index("--isolation") + 1] == "rootless"


def test_docker_writes_the_archive_in_the_build_and_the_others_after_it(tools: FakeTools) -> None:
    output = Path("/out/i.tar")
    command = build_command(DOCKER, job(output=output))
    assert "type=oci,dest=/out/i.tar,rewrite-timestamp=true" in command
    assert command[1:3] == ["buildx", "build"]
    assert command[-1] == "/c"
    assert archive_command(DOCKER, "m:1", output) is None
    assert archive_command(BUILDAH, "m:1", output) == [
        *("/usr/bin/buildah", "--storage-driver", "overlay", "push", "m:1", "oci-archive:/out/i.tar:m:1")
    ]
    assert archive_command(PODMAN, "m:1", output) == [
        *("/usr/bin/podman", "save", "--format", "oci-archive", "--output", "/out/i.tar", "m:1")
    ]
    assert not any(one.startswith("type=oci") for one in build_command(DOCKER, job()))


def test_an_image_is_exported_in_the_format_that_keeps_the_health_check(tools: FakeTools) -> None:
    output = Path("/out/i.tar")
    assert export_command(BUILDAH, "m", output)[-1] == "docker-archive:/out/i.tar"
    assert "docker-archive" in export_command(PODMAN, "m", output)
    assert export_command(DOCKER, "m", output) == ["/usr/bin/docker", "save", "--output", "/out/i.tar", "m"]
