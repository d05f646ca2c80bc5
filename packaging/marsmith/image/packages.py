"""The packages of an image, by the records that Debian and Python keep of what they installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path, PurePosixPath

from packaging.markers import default_environment
from packaging.utils import canonicalize_name

from marsmith.errors import ImageError
from marsmith.ground.files import read_regular, requirements_text
from marsmith.ground.limits import MAX_PAPER_BYTES
from marsmith.image.tree import Tree
from marsmith.lint.requirements import lines

METADATA = re.compile(r"(?:^|/)(?:site|dist)-packages/[^/]+\.dist-info/METADATA$")
PYTHON_DIRECTORY = re.compile(r"(?:^|/)lib/python(3\.\d+)/")
DPKG_STATUS, DPKG_PARTS = "var/lib/dpkg/status", "var/lib/dpkg/status.d/"
OS_RELEASE = ("etc/os-release", "usr/lib/os-release")
# The names that platform.machine() gives an image's architecture.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True, slots=True)
class PythonPackage:
    """An installed distribution: its canonical name, its version, where it lies, and its own metadata."""

    name: str
    version: str
    path: str
    metadata: Message


def is_record(path: str) -> bool:
    """Whether a file says what is installed: its content is needed."""
    return bool(METADATA.search(path)) or path == DPKG_STATUS or path.startswith(DPKG_PARTS) or path in OS_RELEASE


def python_packages(tree: Tree, below: str = "") -> list[PythonPackage]:
    """The distributions below a directory, by name."""
    found = []
    for path, file in tree.files.items():
        if file.content is not None and path.startswith(below) and METADATA.search(path):
            fields = BytesParser().parsebytes(file.content, headersonly=True)
            name, version = str(fields["Name"] or ""), str(fields["Version"] or "")
            found.append(PythonPackage(canonicalize_name(name), version, str(PurePosixPath(path).parent), fields))
    return sorted(found, key=lambda one: (one.name, one.path))


def debian_packages(tree: Tree) -> Iterator[Message]:
    """The installed packages' paragraphs in dpkg's status, which have the form of a mail's headers."""
    for path in sorted(tree.files):
        content = tree.files[path].content
        if content is None or not (path == DPKG_STATUS or path.startswith(DPKG_PARTS)) or path.endswith(".md5sums"):
            continue
        for paragraph in content.split(b"\n\n"):
            fields = BytesParser().parsebytes(paragraph, headersonly=True)
            # Distroless images, whose packages have a file each, leave the state out.
            if fields["Package"] and str(fields.get("Status", "install ok installed")).endswith(" installed"):
                yield fields


def os_release(tree: Tree) -> dict[str, str]:
    """The variables of os-release; empty where there is none."""
    content = next((file.content for path in OS_RELEASE if (file := tree.files.get(path)) and file.content), b"")
    pairs = (line.partition("=") for line in content.decode("utf-8", "replace").splitlines())
    return {name: value.strip("\"'") for name, equals, value in pairs if equals}


def locked(path: Path, tree: Tree, architecture: str, below: str) -> dict[str, str]:
    """The versions in a lock file for the Python below a directory, by canonical name. Raises ImageError."""
    try:
        text = requirements_text(read_regular(path, MAX_PAPER_BYTES))
    except OSError as error:
        raise ImageError(f"The lock file {path} cannot be read ({error.strerror}): name yours with --lock.") from None
    if text is None:
        raise ImageError(f"The lock file {path} is not UTF-8 text: save it as such, or name yours with --lock.")
    environment = _environment(tree, architecture, below)
    versions: dict[str, str] = {}
    for line in lines(text):
        one = line.requirement
        if one is None:
            continue
        pins = [pin for pin in one.specifier if pin.operator in ("==", "===")]
        if len(pins) != 1:
            raise ImageError(f"Line {line.number} of {path} is not pinned: write it as name==version.")
        if one.marker is None or one.marker.evaluate(environment):
            versions[canonicalize_name(one.name)] = pins[0].version
    return versions


def _environment(tree: Tree, architecture: str, below: str) -> dict[str, str]:
    """What markers are evaluated by: the image's own Python, not this one."""
    found = (match[1] for path in tree.files if path.startswith(below) and (match := PYTHON_DIRECTORY.search(path)))
    environment = {name: str(value) for name, value in default_environment().items()}
    if python := next(found, None):
        environment |= {"python_version": python, "python_full_version": f"{python}.0"}
    machine = MACHINES.get(architecture, architecture)
    return (
        environment
        | {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
        | {"platform_machine": machine}
    )
