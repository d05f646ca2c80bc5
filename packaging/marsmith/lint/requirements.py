"""M3: the requirements file, which TorchServe gives to `pip install --target` (install_py_dep_per_model) unread."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from marsmith.lint.findings import Finding
from marsmith.lint.manifest import named
from marsmith.lint.tree import Tree
from marsmith.mar.members import REQUIREMENTS

# What no server starts a worker without; --target would download it again and hide it (pytorch/serve#2238).
INDISPENSABLE = frozenset({"torch", "torchserve"})
INDISPENSABLE_PREFIX = "nvidia-"
# What requires torch, so that --target downloads torch as well, and what only some servers have.
COMPANIONS = frozenset({"torchaudio", "torchtext", "torchvision"})
# What makes archives, and requires nothing of them.
PACKERS = frozenset({"torch-model-archiver", "torch-workflow-archiver"})
# Options that pip takes in a requirements file (pip's documentation, "Requirements File Format").
OPTIONS = frozenset(
    {"-i", "--index-url", "--extra-index-url", "--no-index", "-c", "--constraint", "-r", "--requirement", "-e"}
    | {"--editable", "-f", "--find-links", "--no-binary", "--only-binary", "--prefer-binary", "--require-hashes"}
    | {"--pre", "--trusted-host", "--use-feature"}
)
# Of those, the ones that say how to install, and not what.
SILENT_OPTIONS = OPTIONS - {"-r", "--requirement", "-e", "--editable"}
FILE_OPTIONS = frozenset({"-c", "--constraint", "-r", "--requirement"})
PER_REQUIREMENT_OPTION = re.compile(r"\s--(?:hash|config-settings?|global-option)\b.*", re.DOTALL)
COMMENT = re.compile(r"(?:^|\s)#.*")


@dataclass(frozen=True, slots=True)
class Line:
    """A logical line of a requirements file, by the number of its first line; `requirement` when it is one."""

    number: int
    text: str
    requirement: Requirement | None


def lines(text: str) -> Iterator[Line]:
    """The lines that say something, continued ones joined, comments gone."""
    first, parts = 1, list[str]()
    for number, raw in enumerate([*text.splitlines(), ""], start=1):
        part = COMMENT.sub("", raw).strip()
        first = first if parts else number
        parts.append(part.removesuffix("\\"))
        if part.endswith("\\"):
            continue
        if joined := " ".join(parts).strip():
            yield Line(first, joined, _requirement(joined))
        parts = []


def _requirement(text: str) -> Requirement | None:
    try:
        return Requirement(PER_REQUIREMENT_OPTION.sub("", text).strip())
    except (InvalidRequirement, RecursionError):
        return None


def required(tree: Tree, manifest: Mapping[str, Any]) -> frozenset[str]:
    """The canonical names of the packages that the requirements file requires."""
    found = lines(tree.requirements(requirements_member(tree, manifest)) or "")
    return frozenset(canonicalize_name(line.requirement.name) for line in found if line.requirement)


def brings_unnamed(tree: Tree, manifest: Mapping[str, Any]) -> bool:
    """Whether a line of the requirements may bring packages that it does not name: a URL, a path, another file."""
    found = lines(tree.text(requirements_member(tree, manifest)) or "")
    return any(line.requirement is None and option_of(line.text) not in SILENT_OPTIONS for line in found)


def requirements_member(tree: Tree, manifest: Mapping[str, Any]) -> str:
    """The requirements file: what the manifest names, else requirements.txt."""
    name = posixpath.normpath(named(manifest, "requirementsFile"))
    return name if name in tree.sizes else REQUIREMENTS


def lint_requirements(tree: Tree, manifest: Mapping[str, Any]) -> list[Finding]:
    """What is wrong with the requirements file; nothing when there is none."""
    member = requirements_member(tree, manifest)
    if member not in tree.sizes:
        return []
    findings: list[Finding] = []
    if not named(manifest, "requirementsFile"):
        findings.append(
            Finding(
                "M307",
                member,
                "TorchServe does not install it, since the manifest does not name it.",
                "Name it as requirementsFile, or leave it out.",
            )
        )
    text = tree.requirements(member)
    if text is None:
        return [*findings, Finding("M301", member, "The file is no UTF-8 text that can be read.", "Save it as UTF-8.")]
    found = list(lines(text))
    findings += (finding for line in found for finding in _lint_line(line, f"{member}:{line.number}", tree))
    return [*findings, *_lint_together(found, member)]


def is_servers_own(package: str) -> bool:
    """Whether a package, by its canonical name, belongs on the server and not into an archive's requirements."""
    return package in INDISPENSABLE | COMPANIONS | PACKERS or package.startswith(INDISPENSABLE_PREFIX)


def _servers_own(name: str, where: str) -> Finding:
    if name in COMPANIONS:
        return Finding(
            "M304",
            where,
            f"{name} requires torch, which would be downloaded with it at each registration and hide the server's own.",
            f"Take the line out, and install {name} where the archive is served: not every server has it.",
        )
    if name in PACKERS:
        return Finding(
            "M304",
            where,
            f"{name} makes archives, and would be downloaded at each registration.",
            "Take the line out: nothing that serves an archive needs it.",
        )
    return Finding(
        "M304",
        where,
        f"{name} would be downloaded again at each registration and hide the server's own.",
        "Take the line out: no TorchServe starts a worker without it.",
    )


def _lint_line(line: Line, where: str, tree: Tree) -> Iterator[Finding]:
    """The line's text is not quoted: an option or a URL may hold a password."""
    requirement = line.requirement
    if requirement is None:
        yield from _lint_other(line.text, where, tree)
        return
    name = canonicalize_name(requirement.name)
    if is_servers_own(name):
        yield _servers_own(name, where)
    elif requirement.url:
        yield Finding("M302", where, f"{name} comes from a URL.", "Require a version from the index.")
    elif pinned(requirement) is None:
        yield Finding(
            "M303",
            where,
            f"{name} is not pinned, so it is another one at another registration.",
            f"Write {name}==VERSION.",
        )


def _lint_other(text: str, where: str, tree: Tree) -> Iterator[Finding]:
    """A line that is no requirement: an option, a URL, a path, or nothing that pip reads."""
    option = option_of(text)
    value = text.removeprefix(option).removeprefix("=")
    path = posixpath.normpath(value.strip() if option.startswith("-") else text.split(";")[0].strip())
    is_file = path in tree.sizes
    if option in FILE_OPTIONS and not is_file:
        yield Finding(
            "M301", where, f"The file that {option} names is not in the archive.", "Pack it, or copy its lines."
        )
    elif option in OPTIONS:
        yield Finding("M302", where, f"Lint does not follow {option}.", "Pin versions of the ordinary index instead.")
    elif is_file or "://" in text:
        yield Finding("M302", where, "Lint does not follow a URL or a path.", "Require a version from the index.")
    else:
        yield Finding(
            "M301",
            where,
            "The line is neither a requirement nor an option that pip knows, nor a file in the archive.",
            "Write NAME==VERSION (PEP 508).",
        )


def option_of(text: str) -> str:
    """The first word of a line, without the value that may be joined to it."""
    return text.split(maxsplit=1)[0].partition("=")[0]


def pinned(requirement: Requirement) -> str | None:
    """The one version that a requirement allows; None when it allows several."""
    specifiers = list(requirement.specifier)
    if len(specifiers) != 1 or specifiers[0].operator not in ("==", "===") or specifiers[0].version.endswith(".*"):
        return None
    return specifiers[0].version


def _lint_together(found: list[Line], member: str) -> Iterator[Finding]:
    """Packages that stand in more than one line without a marker that would choose."""
    by_name: dict[str, list[Line]] = defaultdict(list)
    for line in found:
        if line.requirement and line.requirement.marker is None:
            by_name[canonicalize_name(line.requirement.name)].append(line)
    for name, several in by_name.items():
        if len(several) == 1:
            continue
        where = f"{member}:{several[-1].number}"
        stands = f"{name} stands in lines {', '.join(str(line.number) for line in several)}"
        if _exclude_each_other([line.requirement for line in several if line.requirement]):
            yield Finding("M305", where, f"{stands}, and no version satisfies all.", "Keep one of the lines.")
        else:
            yield Finding("M306", where, f"{stands}.", "Keep one of the lines.")


def _exclude_each_other(several: list[Requirement]) -> bool:
    versions = {version for one in several if (version := pinned(one)) is not None}
    return any(not _allows(one, version) for version in versions for one in several)


def _allows(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:  # === takes any text
        return pinned(requirement) == version
