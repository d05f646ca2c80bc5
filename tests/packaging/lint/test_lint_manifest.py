"""M0: the manifest."""

import json
from typing import Any

import pytest

from marsmith.lint import lint
from tests.packaging.lint.trees import MANIFEST, SOUND, codes, lint_with, only, tree


def with_manifest(text: bytes | str) -> list[str]:
    return codes(lint(tree({**SOUND, "MAR-INF/MANIFEST.json": text})))


def test_a_sound_archive_has_no_finding() -> None:
    assert lint(tree(SOUND)) == []


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"null", b"{}", b'{"model": []}', b"\xff\xfe", b"\xef\xbb\xbf{}", b"[" * 100_000, b"9" * 10_000],
    ids=["empty", "cut", "list", "null", "no model", "model a list", "not UTF-8", "BOM", "deep", "digits"],
)
def test_a_manifest_that_describes_no_model_is_found(text: bytes) -> None:
    assert "M001" in with_manifest(text)


def test_a_missing_manifest_is_found() -> None:
    assert "M001" in codes(lint(tree({"handler.py": SOUND["handler.py"]})))


@pytest.mark.parametrize("key", ["modelName", "handler"])
@pytest.mark.parametrize("value", [None, "", [], {}, True])
def test_a_manifest_without_name_or_handler_is_found(key: str, value: object) -> None:
    assert key in only(lint_with({}, **{key: value}), "M002").message


@pytest.mark.parametrize("runtime", ["python2", "Python", "", None, {}, 3])
def test_a_runtime_that_torchserve_does_not_know_is_found(runtime: object) -> None:
    assert with_manifest(json.dumps({**MANIFEST, "runtime": runtime})) == ["M003"]


@pytest.mark.parametrize("runtime", ["python", "python3"])
def test_the_runtimes_of_torchserve_are_fine(runtime: str) -> None:
    assert with_manifest(json.dumps({**MANIFEST, "runtime": runtime})) == []


def test_no_runtime_is_python() -> None:
    assert with_manifest(json.dumps({key: value for key, value in MANIFEST.items() if key != "runtime"})) == []


@pytest.mark.parametrize("name", ["a..b", "..", "a/b", "a b", "-a", "a.", "ä", "a?x=1", "a\n"])
def test_a_model_name_that_cannot_be_routed_is_found(name: str) -> None:
    """TorchServe answers a..b with 404, since it refuses every address with '..'."""
    assert codes(lint_with({}, modelName=name)) == ["M004"]


@pytest.mark.parametrize("version", ["../x y", "", "1/2", "a b", "..", ".", "1?", "50%", "1\n"])
def test_a_version_that_no_url_reaches_is_found(version: str) -> None:
    assert codes(lint_with({}, modelVersion=version)) == ["M005"]


@pytest.mark.parametrize("version", ["1.0", "1.0+cpu", "2026-11-29", 1, 1.5, None])
def test_a_version_that_a_url_can_hold_is_fine(version: object) -> None:
    assert lint_with({}, modelVersion=version) == []


@pytest.mark.parametrize("key", ["serializedFile", "modelFile", "requirementsFile", "configFile"])
@pytest.mark.parametrize("value", ["absent.bin", [], {"a": 1}])
def test_a_named_file_that_is_not_in_the_archive_is_found(key: str, value: Any) -> None:
    findings = lint_with({}, **{key: value})
    assert key in only(findings, "M006").message


def test_a_named_file_may_be_spelt_with_a_dot() -> None:
    assert lint_with({}, configFile="./model-config.yaml") == []
