"""The tools that build and keep images, and their command lines."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from marsmith.errors import ImageError

Name = Literal["docker", "podman", "buildah"]
ANSWER_TIMEOUT_S = 30
# What buildah and podman put before the name of an image that came from no registry.
LOCAL = "localhost/"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool and where it is."""

    name: Name
    path: str


@dataclass(frozen=True, slots=True)
class Job:
    """One build: `context` holds `dockerfile`, `epoch` is in seconds since 1970, `output` gets an OCI archive."""

    context: Path
    dockerfile: Path
    platform: str
    tag: str
    build_args: Mapping[str, str]
    epoch: int
    output: Path | None = None


def find_tool(wanted: str | None = None) -> Tool:
    """The tool of that name, else the first that is there and works. Raises ImageError."""
    names: list[Name] = [name for name in get_args(Name) if wanted in (None, name)]
    for name in names:
        path = shutil.which(name)
        if path and (wanted or _answers(Tool(name, path))):
            return Tool(name, path)
    if wanted:
        raise ImageError(f"{wanted} is not on PATH: install it, or leave out --tool to take what is there.")
    raise ImageError(
        "Neither docker with buildx and a running engine, nor podman, nor buildah is there: install one of them "
        "(buildah needs no engine)."
    )


def _answers(tool: Tool) -> bool:
    """Whether docker has buildx and an engine: its command alone is often there without either."""
    if tool.name != "docker":
        return True
    try:
        return all(
            subprocess.run(  # noqa: S603 - a tool that the user installed
                [tool.path, *arguments], capture_output=True, timeout=ANSWER_TIMEOUT_S, check=False
            ).returncode
            == 0
            for arguments in (["buildx", "version"], ["info"])
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def command(tool: Tool, *arguments: str) -> list[str]:
    """The tool's command line. Where nobody has chosen buildah's storage, overlay: its fallback copies every layer."""
    chosen = any(name in os.environ for name in ("STORAGE_DRIVER", "CONTAINERS_STORAGE_CONF"))
    storage = ["--storage-driver", "overlay"] if tool.name == "buildah" and not chosen else []
    return [tool.path, *storage, *arguments]


def build_command(tool: Tool, job: Job) -> list[str]:
    """What builds the image under its tag, and with docker into the output too.

    Docker's format, because OCI's has no health check.
    """
    common = ["--platform", job.platform, "--file", str(job.dockerfile), "--tag", job.tag]
    for name, value in job.build_args.items():
        common += ["--build-arg", f"{name}={value}"]
    if tool.name == "docker":
        output = ["--output", "type=docker"]
        if job.output:
            output += ["--output", f"type=oci,dest={job.output},rewrite-timestamp=true"]
        plain = ["--progress", "plain", "--provenance", "false", "--sbom", "false"]
        return command(tool, "buildx", "build", *plain, *common, *output, str(job.context))
    # Without the cache, which does not notice that what a step had mounted (lock file, wheels) has changed.
    options = ["--format", "docker", "--layers", "--no-cache", "--force-rm", "--timestamp", str(job.epoch)]
    options += isolation(tool)
    if job.build_args.get("BASE_IMAGE", "").startswith(LOCAL):
        options.append("--pull-never" if tool.name == "buildah" else "--pull=never")
    return command(tool, "build", *options, *common, str(job.context))


def isolation(tool: Tool) -> list[str]:
    """The isolation of buildah: what the user has chosen, else chroot, which needs no container runtime."""
    return ["--isolation", os.environ.get("BUILDAH_ISOLATION", "chroot")] if tool.name == "buildah" else []


def archive_command(tool: Tool, tag: str, output: Path) -> list[str] | None:
    """What writes an image as an OCI archive; None where the build did already."""
    if tool.name == "buildah":
        return command(tool, "push", tag, f"oci-archive:{output}:{tag}")
    return (
        command(tool, "save", "--format", "oci-archive", "--output", str(output), tag)
        if tool.name == "podman"
        else None
    )


def export_command(tool: Tool, name: str, output: Path) -> list[str]:
    """What writes an image of the tool's storage as a docker archive, which keeps the health check."""
    if tool.name == "buildah":
        return command(tool, "push", name, f"docker-archive:{output}")
    form = ["--format", "docker-archive"] if tool.name == "podman" else []
    return command(tool, "save", *form, "--output", str(output), name)
