"""M308 and M309: whether the package index has every requirement for linux aarch64. This asks the network."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement

from marsmith.lint.findings import Finding
from marsmith.lint.requirements import lines

# The wheels that a current ARM64 image takes: glibc 2.28 or later, and those built for 2.17 (PEP 599, PEP 600).
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux2014_aarch64")
MARKERS = {"platform_machine": "aarch64", "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
# A package that every index has: when even this one is not found, it is the index that cannot be reached.
CONTROL = "pip"
TIMEOUT_S = 120
CONNECT_TIMEOUT_S = 15
RETRIES = 1


def lint_index(requirements: str) -> list[Finding]:
    """A finding for each requirement of a requirements file that has no wheel for linux aarch64.

    The whole file is asked for at once, and each line by itself only when that fails. Options, URLs and paths are not
    followed. When the index cannot be asked, one warning says so.
    """
    wanted = [*dict.fromkeys(_plain(line.requirement) for line in lines(requirements) if _applies(line.requirement))]
    if not wanted or _found(wanted):
        return []
    if not _found([CONTROL]):
        return [
            Finding(
                "M309",
                "package index",
                "It cannot be reached, or pip is missing: the requirements were not checked for linux aarch64.",
                "Check the network and pip's configuration, then ask again.",
            )
        ]
    return [
        Finding(
            "M308",
            requirement,
            f"The package index has no wheel of {requirement} for linux aarch64.",
            "Require a version that has one, or leave it out.",
        )
        for requirement in wanted
        if not _found([requirement])
    ]


def _applies(requirement: Requirement | None) -> bool:
    if requirement is None or requirement.url:
        return False
    return requirement.marker is None or requirement.marker.evaluate(MARKERS)


def _plain(requirement: Requirement | None) -> str:
    """Name and versions only: nothing that would make pip go elsewhere or build anything."""
    return f"{requirement.name}{requirement.specifier}" if requirement else ""


def _found(requirements: Iterable[str]) -> bool:
    """Whether pip would install all of them."""
    with tempfile.TemporaryDirectory(prefix="marsmith-") as scratch:
        file = Path(scratch, "requirements.txt")
        file.write_text("".join(f"{one}\n" for one in requirements), encoding="utf-8")
        command = [
            *(sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"),
            *("--no-input", "--disable-pip-version-check", "--only-binary=:all:", "--target", scratch),
            *(part for platform in PLATFORMS for part in ("--platform", platform)),
            *("--retries", str(RETRIES), "--timeout", str(CONNECT_TIMEOUT_S), "-r", str(file)),
        ]
        try:
            result = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired):
            return False
    return result.returncode == 0
