"""The checks that need no running container: each asks one question of an image and its files."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from packaging.utils import canonicalize_version

from marsmith.ground.untrusted import mapping, strings
from marsmith.image import elf, plan
from marsmith.image.archive import Image
from marsmith.image.packages import locked, python_packages
from marsmith.image.results import Result, verdict
from marsmith.image.secrets import secret_in_line, secret_variables
from marsmith.image.tree import Tree

SETUID_SETGID, EXECUTABLE = 0o6000, 0o111
SHELLS = ("sh", "bash", "dash")
# Compilers, their back ends, linkers and build drivers, with a target before and a version after.
COMPILER = re.compile(
    r"(?:[a-z0-9_]+-[a-z0-9_-]+-)?"
    r"(?:cc|c\+\+|gcc|g\+\+|cpp|clang|clang\+\+|cc1|cc1plus|collect2|tcc|gfortran|rustc|cargo|javac|nvcc|as"
    r"|ld|ld\.bfd|ld\.gold|ld\.lld|lld|make|gmake|cmake|ninja|meson|bazel)"
    r"(?:-\d+(?:\.\d+)*)?"
)
PIP_CACHE = re.compile(r"(?:^|/)(?:\.cache/(?:pip|uv)|pip-(?:unpack|install|ephem-wheel-cache|build)-[^/]+)/")
# Marsmith itself is copied into the image, not locked.
OWN = "marsmith"


def check_static(image: Image, tree: Tree, lock: Path) -> list[Result]:
    """Every check's result. Raises ImageError when the lock file cannot be read."""
    return [
        check_architecture(image, tree),
        check_user(image),
        check_entrypoint(image, tree),
        check_health(image, tree),
        check_privileges(tree),
        check_compilers(tree),
        check_secrets(image, tree),
        check_settings(image),
        check_versions(image, tree, lock),
        check_pip_cache(tree),
    ]


def check_architecture(image: Image, tree: Tree) -> Result:
    """Every ELF file is for the processor that the image says it is for."""
    name = image.architecture
    expected = elf.MACHINES.get(name)
    if expected is None:
        return Result("architecture", "wrong", f"the image's architecture is {name or 'not said'}, which is not known")
    found = {path: file.machine for path, file in tree.files.items() if file.machine is not None}
    wrong = [f"{path} ({elf.machine_name(one)})" for path, one in sorted(found.items()) if one != expected]
    if not found:
        return Result("architecture", "wrong", "no file in the image is a program or a library")
    return verdict(
        "architecture",
        wrong,
        f"all {len(found)} programs and libraries are {name}",
        f"{len(wrong)} of {len(found)} programs and libraries are not {name}",
    )


def check_user(image: Image) -> Result:
    """It runs as the user that Marsmith plans, by number, with whatever group."""
    user = str(image.config.get("User") or "")
    number = re.fullmatch(r"(\d+)(?::\d+)?", user)
    if number and int(number[1]) == plan.USER:
        return Result("user", "ok", f"runs as {user}")
    if number and int(number[1]) and user:
        return Result("user", "wrong", f"runs as {user}, not as {plan.USER}: set USER {plan.USER}")
    why = "root" if user in ("", "root") or number else f"{user}, which is no number"
    return Result("user", "wrong", f"runs as {why}: set USER {plan.USER}")


def check_entrypoint(image: Image, tree: Tree) -> Result:
    """The entry point is a program with arguments, so that signals reach it, and it is there."""
    entrypoint = strings(image.config.get("Entrypoint"))
    if not entrypoint:
        return Result("entrypoint", "wrong", "there is no entry point: set ENTRYPOINT as a JSON list")
    if fault := _command_fault(entrypoint, tree):
        return Result("entrypoint", "wrong", fault, (" ".join(entrypoint),))
    return Result("entrypoint", "ok", " ".join([*entrypoint, *strings(image.config.get("Cmd"))]))


def check_health(image: Image, tree: Tree) -> Result:
    """There is a health check, which is a program that is there; only docker's format can hold one."""
    test = strings(mapping(image.config.get("Healthcheck")).get("Test"))
    if not test and image.format == "OCI":
        return Result("health check", "note", "the OCI format has none: the runtime must be told of it")
    if not test or test[0] == "NONE":
        return Result("health check", "wrong", "there is none: set HEALTHCHECK, and build with docker's format")
    fault = "is run by a shell" if test[0] != "CMD" else _command_fault(test[1:], tree)
    if fault:
        return Result("health check", "wrong", fault, (" ".join(test),))
    return Result("health check", "ok", " ".join(test[1:]))


def _command_fault(command: list[str], tree: Tree) -> str | None:
    if not command:
        return "is empty"
    if posixpath.basename(command[0]) in SHELLS and "-c" in command[1:2]:
        return "is run by a shell, which forwards no signals: write it as a JSON list"
    file = tree.resolve(command[0]) if command[0].startswith("/") else None
    if not command[0].startswith("/"):
        return f"{command[0]} is no absolute path, so what runs depends on PATH"
    if file is None or file.kind != "file":
        return f"{command[0]} is not in the image"
    return None if file.mode & EXECUTABLE else f"{command[0]} is not executable"


def check_privileges(tree: Tree) -> Result:
    """No program gives whoever runs it the rights of its owner or group."""
    wrong = sorted(path for path, file in tree.files.items() if file.kind == "file" and file.mode & SETUID_SETGID)
    return verdict(
        "setuid, setgid", wrong, "no file", f"{len(wrong)} files give the rights of their owner: chmod a-s, or remove"
    )


def check_compilers(tree: Tree) -> Result:
    """There is nothing to compile with for whoever breaks in."""
    wrong = sorted(path for path, file in tree.files.items() if _is_compiler(file.kind, file.mode, path))
    return verdict("compilers", wrong, "none", f"{len(wrong)} compilers, linkers or build tools: remove")


def _is_compiler(kind: str, mode: int, path: str) -> bool:
    runs = kind == "link" or (kind == "file" and bool(mode & EXECUTABLE))
    directory, name = posixpath.split(path)
    programs = posixpath.basename(directory) in ("bin", "sbin") or "/gcc/" in f"/{directory}/"
    return runs and programs and COMPILER.fullmatch(name) is not None


def check_secrets(image: Image, tree: Tree) -> Result:
    """No layer holds a secret: what a later layer deletes can still be read."""
    wrong = [
        f"{one.path}: {one.kind}" + (f" (in layer {one.layer + 1}, deleted later)" if one.deleted else "")
        for one in sorted(tree.secrets, key=lambda one: (one.path, one.layer))
    ]
    return verdict(
        "secrets in files",
        wrong,
        f"none in {len(image.layers)} layers",
        f"{len(wrong)} files: leave them out, and replace the secrets where they were issued",
    )


def check_settings(image: Image) -> Result:
    """Neither the environment, the labels nor the history of the build hold a secret."""
    wrong = [f"Env {name}: {kind}" for name, kind in secret_variables(strings(image.config.get("Env")))]
    for name, value in mapping(image.config.get("Labels")).items():
        if kind := secret_in_line(f"{name}={value}"):
            wrong.append(f"label {name}: {kind}")
    for number, step in enumerate(image.history, 1):
        if kind := secret_in_line(step):
            wrong.append(f"history, step {number}: {kind}")
    return verdict(
        "secrets in settings",
        wrong,
        "none in environment, labels and history",
        f"{len(wrong)}: pass secrets as files at run time, and replace these where they were issued",
    )


def check_versions(image: Image, tree: Tree, lock: Path) -> Result:
    """The environment holds exactly the locked packages. Raises ImageError when the lock file cannot be read."""
    below = f"{plan.VENV}/"
    expected = locked(lock, tree, image.architecture, below)
    found = [one for one in python_packages(tree, below) if one.name != OWN]
    if not found:
        return Result("locked versions", "wrong", f"no Python package is installed below /{plan.VENV}")
    wrong = [
        f"{one.name} {one.version}, " + (f"locked {expected[one.name]}" if one.name in expected else "not locked")
        for one in found
        if canonicalize_version(expected.get(one.name, "")) != canonicalize_version(one.version)
    ]
    wrong += [f"{name} {expected[name]} is missing" for name in sorted(expected.keys() - {one.name for one in found})]
    return verdict(
        "locked versions",
        wrong,
        f"all {len(found)} packages are those of {lock.name}",
        f"{len(wrong)} packages differ from {lock.name}: build again, or name its lock file with --lock",
    )


def check_pip_cache(tree: Tree) -> Result:
    """No cache of an installer takes room."""
    wrong = sorted(path for path, file in tree.files.items() if file.kind == "file" and PIP_CACHE.search(path))
    return verdict("pip cache", wrong, "none", f"{len(wrong)} files: install with --no-cache-dir")
