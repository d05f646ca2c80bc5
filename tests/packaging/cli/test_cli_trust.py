"""The commands that say whether an archive can be trusted: exit codes, sentences, tables and JSON."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from model_archiver.model_archiver_config import ModelArchiverConfig
from model_archiver.model_packaging import generate_model_archive

from marsmith.builder import Built
from marsmith.mar.members import MANIFEST, SEALS
from marsmith.mar.writer import write_archive
from marsmith.torchserve.server import Server
from tests.packaging.cli.test_cli import marsmith, sentence
from tests.packaging.forgery import members, unpacked
from tests.packaging.ports import free_ports


@pytest.fixture
def archive(sentiment_archive: Built, tmp_path: Path) -> Path:
    return Path(shutil.copy(sentiment_archive.path, tmp_path / "sentiment.mar"))


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive that torch-model-archiver made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    handler = tmp_path / "my_handler.py"
    handler.write_text("def handle(data, context):\n    return data and [b'ok'] * len(data)\n")
    options: dict[str, Any] = {"model_name": "theirs", "handler": str(handler), "version": "2.0"}
    generate_model_archive(ModelArchiverConfig(**options, export_path=str(tmp_path)))
    return tmp_path / "theirs.mar"


def test_verify_says_what_is_proven_and_what_is_not(archive: Path, theirs: Path) -> None:
    assert "members as they were built; not signed" in marsmith("verify", archive).stdout
    result = marsmith("verify", theirs)
    assert result.returncode == 0
    assert "it has no digests, so its content is not proven" in result.stdout


def test_verify_names_what_was_changed(archive: Path) -> None:
    data = bytearray(archive.read_bytes())
    data[data.index(b"model/model.weights") + 500] ^= 1
    archive.write_bytes(data)
    result = marsmith("verify", archive)
    assert result.returncode == 1
    assert "the content of" in result.stdout
    report = json.loads(marsmith("verify", archive, "--json").stdout)
    assert report["ok"] is False
    assert {problem["member"] for problem in report["problems"]} == {"model/model.weights"}


def test_a_tampered_archive_is_not_served(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes() + b"more")
    message = sentence(marsmith("serve", archive, "--port", free_ports().first))
    assert "is not to be trusted: 4 bytes follow the end of the archive" in message


def test_keygen_sign_and_verify(archive: Path, tmp_path: Path) -> None:
    made = json.loads(marsmith("keygen", tmp_path / "key.pem", "--json").stdout)
    key_id = json.loads(marsmith("sign", archive, "--key", made["private"], "--json").stdout)["key_id"]
    assert key_id in marsmith("inspect", archive, "--json").stdout
    required = ("--key", made["public"], "--require-signature")
    result = marsmith("verify", archive, *required)
    assert (result.returncode, "signature valid" in result.stdout) == (0, True)
    assert "signature not checked" in marsmith("verify", archive).stdout
    assert "name it with --key" in sentence(marsmith("verify", archive, "--require-signature"))
    assert "is there already" in sentence(marsmith("keygen", tmp_path / "key.pem"))
    unsigned = [(name, data) for name, data in unpacked(archive.read_bytes()) if name not in SEALS]
    write_archive(archive, members(dict(unsigned)))
    assert marsmith("verify", archive, *required).returncode == 1
    assert "it is not signed" in sentence(marsmith("serve", archive, *required, "--port", free_ports().first))


def test_lint_of_a_recipe_and_of_an_archive(archive: Path, sentiment_recipe: Path, theirs: Path) -> None:
    result = marsmith("lint", sentiment_recipe, "--offline")
    assert result.returncode == 0
    assert "errors: 0, warnings: 1" in result.stderr  # a recipe without samples
    assert marsmith("lint", sentiment_recipe, "--offline", "--strict").returncode == 1
    assert marsmith("lint", archive, "--offline").returncode == 0
    findings = json.loads(marsmith("lint", theirs, "--offline", "--json").stdout)
    assert [(one["code"], one["severity"]) for one in findings] == [("M201", "warning")]


def test_lint_of_a_broken_archive_fails_with_a_table(tmp_path: Path) -> None:
    manifest = json.dumps({"runtime": "python", "model": {"modelName": "a..b", "handler": "torch.py"}}).encode()
    write_archive(tmp_path / "m.mar", members({"torch.py": b"def handle(:\n", MANIFEST: manifest}))
    result = marsmith("lint", tmp_path / "m.mar", "--offline")
    assert result.returncode == 1
    for code in ("M004", "M103", "M108"):
        assert code in result.stdout


def test_test_shows_expected_against_got(archive: Path) -> None:
    result = marsmith("test", archive)
    assert result.returncode == 0
    assert result.stdout.count("✓") == 3
    outcomes = json.loads(marsmith("test", archive, "--json").stdout)
    assert all(one["ok"] for one in outcomes)
    assert outcomes[0]["expected"]["label"] == outcomes[0]["prediction"]["body"]["label"]


def test_test_of_another_archiver_loads_it(theirs: Path) -> None:
    result = marsmith("test", theirs)
    assert result.returncode == 0
    assert "loads; it has no golden requests" in result.stdout
    assert "has no golden requests to ask" in sentence(marsmith("test", theirs, "--server", "http://127.0.0.1:9"))


@pytest.mark.server
def test_a_running_server_is_asked_the_golden_requests(archive: Path, food_archive: Built) -> None:
    with Server([archive], free_ports()) as server:
        server.start()
        server.wait_ready()
        result = marsmith("test", archive, "--server", server.ports.url)
        assert (result.returncode, result.stdout.count("✓")) == (0, 3)
        message = marsmith("test", food_archive.path, "--server", server.ports.url)
        assert message.returncode == 1
        assert "answers 2 of 2 golden requests otherwise than expected: probe 1: status 404" in message.stderr


def test_diff_speaks_in_a_table_in_json_and_by_exit_code(archive: Path, food_archive: Built) -> None:
    assert "no difference" in marsmith("diff", archive, archive, "--exit-code").stdout
    result = marsmith("diff", archive, food_archive.path, "--exit-code")
    assert result.returncode == 1
    assert "label removed" in result.stdout
    changes = json.loads(marsmith("diff", archive, food_archive.path, "--json").stdout)
    assert {"kind": "model", "what": "task", "before": "sentiment", "after": "food"} in changes
