"""Each check of an image's files and settings, with what is right and what is wrong."""

from pathlib import Path
from typing import Any

import pytest

from marsmith.image.archive import Image, read_image
from marsmith.image.packages import is_record
from marsmith.image.results import Result
from marsmith.image.static import check_static
from marsmith.image.tree import Tree, read_tree
from tests.packaging.image.images import (
    CONFIG,
    LOCK,
    PRIVATE_KEY,
    SITE,
    X86_64,
    Files,
    Member,
    docker_archive,
    elf,
    good,
    link,
    oci_archive,
)

CHECKS = [
    "architecture",
    "user",
    "entrypoint",
    "health check",
    "setuid, setgid",
    "compilers",
    "secrets in files",
    "secrets in settings",
    "locked versions",
    "pip cache",
]


def read(path: Path) -> tuple[Image, Tree]:
    image = read_image(path)
    return image, read_tree(image, is_record)


def results(tmp_path: Path, *more: Files, **options: Any) -> dict[str, Result]:
    """The results of a good image with further layers or other settings, by check."""
    lock = tmp_path / "lock.txt"
    lock.write_text(LOCK)
    image, tree = read(docker_archive(tmp_path / "image.tar", good(), *more, **options))
    return {one.check: one for one in check_static(image, tree, lock)}


def wrong(found: dict[str, Result]) -> list[str]:
    return [name for name, one in found.items() if one.status != "ok"]


def config(**settings: Any) -> dict[str, Any]:
    return CONFIG | settings


def test_nothing_is_wrong_with_a_good_image(tmp_path: Path) -> None:
    found = results(tmp_path)
    assert list(found) == CHECKS
    assert wrong(found) == []
    assert found["architecture"].message == "all 2 programs and libraries are arm64"
    assert found["locked versions"].message == "all 2 packages are those of lock.txt"


def test_a_library_of_another_processor_is_named(tmp_path: Path) -> None:
    found = results(tmp_path, {"usr/lib/libz.so": elf(X86_64)})
    assert wrong(found) == ["architecture"]
    assert found["architecture"].where == ("usr/lib/libz.so (amd64)",)
    assert found["architecture"].message == "1 of 3 programs and libraries are not arm64"


def test_an_image_that_says_another_architecture_than_its_files_have(tmp_path: Path) -> None:
    assert len(results(tmp_path, architecture="amd64")["architecture"].where) == 2
    assert "which is not known" in results(tmp_path, architecture="z80")["architecture"].message


def test_a_foreign_library_that_was_deleted_does_not_count(tmp_path: Path) -> None:
    assert wrong(results(tmp_path, {"lib/x.so": elf(X86_64)}, {"lib/.wh.x.so": b""})) == []


@pytest.mark.parametrize("user", ["10001", "10001:0", "10001:10001"])
def test_the_planned_user_with_any_group(tmp_path: Path, user: str) -> None:
    assert wrong(results(tmp_path, config=config(User=user))) == []


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ("", "runs as root"),
        ("root", "runs as root"),
        ("0:10001", "runs as root"),
        ("marsmith", "marsmith, which is no number"),
        ("10001:marsmith", "which is no number"),
        ("1000", "runs as 1000, not as 10001"),
    ],
)
def test_another_user(tmp_path: Path, user: str, message: str) -> None:
    found = results(tmp_path, config=config(User=user))
    assert wrong(found) == ["user"]
    assert message in found["user"].message


@pytest.mark.parametrize(
    ("entrypoint", "message"),
    [
        (None, "there is no entry point"),
        (["/bin/sh", "-c", "serve"], "is run by a shell"),
        (["python", "-m", "x"], "python is no absolute path"),
        (["/opt/python"], "/opt/python is not in the image"),
        (["/etc/os-release"], "/etc/os-release is not executable"),
    ],
)
def test_another_entrypoint(tmp_path: Path, entrypoint: list[str] | None, message: str) -> None:
    found = results(tmp_path, config=config(Entrypoint=entrypoint))
    assert wrong(found) == ["entrypoint"]
    assert message in found["entrypoint"].message


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (None, "there is none"),
        (["NONE"], "there is none"),
        (["CMD-SHELL", "curl localhost"], "is run by a shell"),
        (["CMD", "/usr/bin/curl"], "/usr/bin/curl is not in the image"),
    ],
)
def test_another_health_check(tmp_path: Path, test: list[str] | None, message: str) -> None:
    found = results(tmp_path, config=config(Healthcheck={"Test": test} if test else None))
    assert wrong(found) == ["health check"]
    assert found["health check"].status == "wrong"
    assert message in found["health check"].message


def test_the_oci_format_can_hold_no_health_check(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text(LOCK)
    image, tree = read(oci_archive(tmp_path / "image.tar", good()))
    found = {one.check: one for one in check_static(image, tree, tmp_path / "lock.txt")}
    assert wrong(found) == ["health check"]
    assert found["health check"].status == "note"


def test_files_that_lend_their_owners_rights(tmp_path: Path) -> None:
    files = {
        "usr/bin/su": Member(b"", 0o4755),
        "usr/bin/wall": Member(b"", 0o2755),
        "usr/bin/id": Member(b"", 0o755),
        "var/mail": Member(mode=0o2775, type=b"5"),
    }
    found = results(tmp_path, files)
    assert found["setuid, setgid"].where == ("usr/bin/su", "usr/bin/wall")
    assert wrong(results(tmp_path, files, {"usr/bin/su": b"", "usr/bin/.wh.wall": b""})) == []


@pytest.mark.parametrize(
    "path",
    [
        "usr/bin/gcc",
        "usr/bin/aarch64-linux-gnu-gcc-12",
        "usr/bin/c++",
        "usr/bin/g++-12",
        "usr/bin/clang-14",
        "usr/bin/ld.gold",
        "usr/bin/make",
        "usr/local/bin/cmake",
        "opt/marsmith/bin/ninja",
        "usr/lib/gcc/aarch64-linux-gnu/12/cc1plus",
    ],
)
def test_a_compiler(tmp_path: Path, path: str) -> None:
    assert results(tmp_path, {path: Member(b"", 0o755)})["compilers"].where == (path,)
    assert results(tmp_path, {path: link("/usr/bin/other")})["compilers"].where == (path,)


@pytest.mark.parametrize("path", ["usr/bin/ld.so", "usr/bin/makeinfo", "usr/share/doc/make", "usr/bin/ccache-stats"])
def test_no_compiler(tmp_path: Path, path: str) -> None:
    assert wrong(results(tmp_path, {path: Member(b"", 0o755)})) == []


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("etc/ssl/private/server.key", PRIVATE_KEY, "a private key"),
        ("root/.netrc", b"machine x", "passwords of hosts"),
        ("root/.ssh/id_rsa", b"", "an SSH key"),
        ("root/.aws/credentials", b"[default]", "keys of an AWS account"),
        ("etc/pip.conf", b"[global]\nindex-url = https://me:hunter2@pypi.example/simple\n", "a password of a package"),
        ("app/settings.py", b"KEY = 'AKIAQ7RT2M4XW5ZLP9KD'", "an AWS access key"),
    ],
)
def test_a_secret_in_a_file(tmp_path: Path, path: str, text: bytes, kind: str) -> None:
    found = results(tmp_path, {path: text})
    assert wrong(found) == ["secrets in files"]
    (where,) = found["secrets in files"].where
    assert where.startswith(f"{path}: {kind}")


def test_a_secret_that_a_later_layer_deletes_is_still_there(tmp_path: Path) -> None:
    found = results(tmp_path, {"root/key.pem": PRIVATE_KEY}, {"root/.wh.key.pem": b""})
    assert found["secrets in files"].where == ("root/key.pem: a private key (in layer 2, deleted later)",)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (f"{SITE}/future/tests/ssl_key.pem", PRIVATE_KEY),
        (f"{SITE}/transformers/testing_utils.py", PRIVATE_KEY),
        ("usr/lib/python3.11/test/keycert.pem", PRIVATE_KEY),
        ("etc/pip.conf", b"[global]\nindex-url = https://p.example/wheels\n"),
        ("etc/ssl/certs/ca.pem", b"-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG\n"),
    ],
)
def test_no_secret(tmp_path: Path, path: str, text: bytes) -> None:
    assert wrong(results(tmp_path, {path: text})) == []


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("API_TOKEN=abc", "API_TOKEN"),
        ("DB_PASSWORD=abc", "DB_PASSWORD"),
        ("ANYTHING=AKIAQ7RT2M4XW5ZLP9KD", "ANYTHING"),
        ("PIP_INDEX_URL=https://me:hunter2@pypi.example/simple", "PIP_INDEX_URL"),
    ],
)
def test_a_secret_in_the_environment(tmp_path: Path, variable: str, name: str) -> None:
    found = results(tmp_path, config=config(Env=["PATH=/usr/bin", variable]))
    assert wrong(found) == ["secrets in settings"]
    (where,) = found["secrets in settings"].where
    assert where.startswith(f"Env {name}: ")
    assert variable.partition("=")[2] not in where


@pytest.mark.parametrize(
    "variable", ["MARSMITH_TOKEN=false", "TOKEN_FILE=/run/secrets/token", "GPG_KEY=A035C8C19219BA821E", "API_TOKEN="]
)
def test_no_secret_in_the_environment(tmp_path: Path, variable: str) -> None:
    assert wrong(results(tmp_path, config=config(Env=[variable]))) == []


def test_a_secret_in_the_history_or_a_label(tmp_path: Path) -> None:
    step = "|1 PIP_INDEX_URL=https://me:hunter2@pypi.example/simple /bin/sh -c pip install x"
    found = results(tmp_path, history=[step], config=config(Labels={"source": "https://me:hunter2@git.example"}))
    assert found["secrets in settings"].where == (
        "label source: a password in an address",
        "history, step 2: a password in an address",
    )


@pytest.mark.parametrize("path", ["root/.cache/pip/http-v2/a/b", "tmp/pip-unpack-x7/a.whl", "home/x/.cache/uv/y"])
def test_a_pip_cache(tmp_path: Path, path: str) -> None:
    found = results(tmp_path, {path: b"1"})
    assert found["pip cache"].where == (path,)
    assert wrong(results(tmp_path, {path: b"1"}, {f"{path.split('/')[0]}/.wh..wh..opq": b""})) == []
