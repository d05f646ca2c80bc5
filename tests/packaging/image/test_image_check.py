"""The commands: tables and JSON on standard output, exit code 1 when anything is wrong, one sentence for no image."""

import json
from pathlib import Path

import pytest

from marsmith.builder import Built
from marsmith.errors import ImageError
from marsmith.image.check import Options, check
from tests.packaging.cli.test_cli import marsmith, sentence
from tests.packaging.image.fake_tools import FakeTools
from tests.packaging.image.images import LOCK, Files, Member, docker_archive, good, oci_archive
from tests.packaging.image.served import small_archive


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "lock.txt"
    path.write_text(LOCK)
    return path


@pytest.mark.slow
def test_a_good_image_passes(tmp_path: Path, lock: Path) -> None:
    image = docker_archive(tmp_path / "image.tar", good())
    result = marsmith("image", "check", image, "--static", "--lock", lock)
    assert (result.returncode, result.stderr) == (0, "")
    for word in ("architecture", "Size by layer", "STEP 1"):
        assert word in result.stdout
    assert "✗" not in result.stdout


@pytest.mark.slow
def test_json_says_it_all(tmp_path: Path, lock: Path) -> None:
    image = oci_archive(tmp_path / "image.tar", good(), {"usr/bin/su": Member(b"1234", 0o4755)})
    result = marsmith("image", "check", image, "--static", "--lock", lock, "--json")
    assert result.returncode == 1
    assert "checks that failed: 1" in result.stderr
    report = json.loads(result.stdout)
    assert (report["ok"], report["format"], report["architecture"]) == (False, "OCI", "arm64")
    assert [one["unpacked"] for one in report["layers"]][1] == 4
    (one,) = (one for one in report["results"] if one["status"] == "wrong")
    assert one["check"] == "setuid, setgid"
    assert one["where"] == ["usr/bin/su"]


@pytest.mark.slow
def test_what_is_no_image_is_one_sentence(tmp_path: Path) -> None:
    assert "There is no image" in sentence(marsmith("image", "check", tmp_path / "no.tar", "--static"))
    (tmp_path / "text").write_text("text")
    assert "cannot be read as an image" in sentence(marsmith("image", "check", tmp_path / "text", "--static"))


@pytest.mark.parametrize("command", ["build", "check"])
def test_the_commands_explain_themselves(command: str) -> None:
    result = marsmith("image", command, "--help")
    assert result.returncode == 0
    assert f"marsmith image {command}" in result.stdout


def test_the_archives_in_the_image_are_verified(tmp_path: Path, lock: Path, sentiment_archive: Built) -> None:
    data = sentiment_archive.path.read_bytes()
    files: Files = {"opt/model-store/a.mar": data, "opt/model-store/b.mar": data + b"more"}
    image = docker_archive(tmp_path / "image.tar", good(), files)
    report = check(Options(str(image), lock=lock, static=True))
    (result,) = (one for one in report.results if one.check == "archives")
    assert result.status == "wrong"
    assert result.where == ("b.mar: 4 bytes follow the end of the archive",)


def test_a_name_is_exported_from_the_tool(tools: FakeTools, tmp_path: Path, lock: Path) -> None:
    tools.image = str(docker_archive(tmp_path / "image.tar", good()))
    tools.add("buildah")
    report = check(Options("localhost/marsmith:1", lock=lock, static=True))
    assert report.ok
    assert report.image == "localhost/marsmith:1"
    (asked,) = tools.asked()
    assert asked[3:5] == ["push", "localhost/marsmith:1"]


def test_an_engine_runs_what_it_has_loaded(
    tools: FakeTools, tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marsmith.image.check.machine", lambda: "aarch64")
    tools.answers = {
        "load": {"says": "Loaded image: m:1\n"},
        "run": {"says": "abc\n"},
        "port": {"says": "127.0.0.1:9\n"},
        "inspect": {"says": "0\n"},
    }
    tools.add("podman")
    image = docker_archive(tmp_path / "image.tar", good())
    archive = small_archive(tmp_path / "m.mar")
    report = check(Options(str(image), [archive], lock=lock))
    found = {one.check: one.status for one in report.results}
    assert (found["ready"], found["golden requests"], found["stop"]) == ("ok", "wrong", "ok")
    asked = tools.asked()
    assert ["podman", "exec", "abc", "/opt/marsmith/bin/python", "-P", "-m", "marsmith.container.health"] in asked
    assert ["podman", "rm", "--force", "--volumes", "abc"] in asked
    (run,) = (command for command in asked if command[1] == "run")
    assert not any("TIMEOUT" in word for word in run)


@pytest.mark.parametrize(("timeout_s", "seconds"), [(None, 3600), (7200, 7200), (100_000, 86_400)])
def test_an_emulated_cpu_gets_more_time_than_archives_say(
    tools: FakeTools,
    tmp_path: Path,
    lock: Path,
    monkeypatch: pytest.MonkeyPatch,
    timeout_s: int | None,
    seconds: int,
) -> None:
    monkeypatch.setattr("marsmith.image.check.machine", lambda: "x86_64")
    tools.answers = {"load": {"says": "Loaded image: m:1\n"}, "run": {"code": 1}}
    tools.add("podman")
    image = docker_archive(tmp_path / "image.tar", good())
    with pytest.raises(ImageError):
        check(Options(str(image), lock=lock, timeout_s=timeout_s, environ={"RESPONSE_TIMEOUT_SECONDS": "5"}))
    (run,) = (command for command in tools.asked() if command[1] == "run")
    # What the user says comes first.
    assert {f"STARTUP_TIMEOUT_SECONDS={seconds}", "RESPONSE_TIMEOUT_SECONDS=5"} <= set(run)


def test_an_archive_to_be_mounted_must_be_there(tools: FakeTools, tmp_path: Path, lock: Path) -> None:
    tools.add("buildah")
    image = docker_archive(tmp_path / "image.tar", good())
    with pytest.raises(Exception, match=r"no archive .*missing\.mar"):
        check(Options(str(image), [tmp_path / "missing.mar"], lock=lock))


def test_a_damaged_image_is_refused(tmp_path: Path, lock: Path) -> None:
    image = docker_archive(tmp_path / "image.tar", {"a": b"some text"})
    image.write_bytes(image.read_bytes().replace(b"some text", b"same text"))
    with pytest.raises(ImageError, match="is not the one that the image names"):
        check(Options(str(image), lock=lock, static=True))
