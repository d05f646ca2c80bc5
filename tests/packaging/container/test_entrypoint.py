"""The image's entry point with a real TorchServe, as the image runs it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import requests

import marsmith
from marsmith.builder import Built
from marsmith.container.entrypoint import main
from marsmith.evidence.replay import on_server
from marsmith.mar.reader import extract_archive
from tests.packaging.container.processes import alive, descendants, kill
from tests.packaging.ports import free_ports

TIMEOUT_S = 120
SLOW_HANDLER = """
import pathlib, time

class Slow:
    def initialize(self, context):
        pass

    def handle(self, data, context):
        pathlib.Path({begun!r}).touch()
        end = time.monotonic() + 4
        while time.monotonic() < end:
            pass
        return ["answered"] * len(data)
"""


def run(module: str, environ: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"marsmith.container.{module}"],
        env=os.environ | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def healthy(environ: dict[str, str]) -> bool:
    process = run("health", environ)
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode == 0) == output.startswith("READY: ")
    return process.returncode == 0


def wait_healthy(server: subprocess.Popen[str], environ: dict[str, str]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not healthy(environ):
        assert server.poll() is None
        assert time.monotonic() < deadline


@pytest.mark.server
@pytest.mark.parametrize("token", ["no", "yes"])
def test_it_serves_until_sigterm_and_answers_what_was_asked(
    sentiment_archive: Built, tmp_path: Path, token: str
) -> None:
    store, begun = tmp_path / "store", tmp_path / "begun"
    store.mkdir()
    shutil.copy(sentiment_archive.path, store)
    handler = tmp_path / "slow.py"
    handler.write_text(SLOW_HANDLER.format(begun=str(begun)))
    marsmith.archive(model_name="slow", handler=str(handler), version="1.0", export_path=store)
    port = free_ports().first
    environ = {
        "MODEL_STORE": str(store),
        "MARSMITH_HOME": str(tmp_path / "home"),
        "SAGEMAKER_BIND_TO_PORT": str(port),
        "TOKEN_AUTHORIZATION": token,
    }
    url = f"http://127.0.0.1:{port}"
    server = run("entrypoint", environ)
    try:
        wait_healthy(server, environ)
        headers = authorization(tmp_path / "home") if token == "yes" else {}
        assert all(one.ok for one in on_server(store / "sentiment.mar", url, headers))
        assert requests.post(f"{url}/predictions/slow", data=b"x", timeout=TIMEOUT_S).ok == (token == "no")
        begun.unlink(missing_ok=True)

        answers: list[requests.Response] = []

        def ask() -> None:
            answers.append(requests.post(f"{url}/predictions/slow", data=b"x", headers=headers, timeout=TIMEOUT_S))

        asking = threading.Thread(target=ask)
        asking.start()
        while not begun.exists():
            time.sleep(0.01)
        processes = descendants(server)
        server.send_signal(signal.SIGTERM)
        until_draining = time.monotonic() + TIMEOUT_S
        while not (tmp_path / "home/draining").exists():
            assert time.monotonic() < until_draining
            time.sleep(0.01)
        assert not healthy(environ)
        asking.join(TIMEOUT_S)
        assert [(answer.status_code, answer.text) for answer in answers] == [(200, "answered")]
        output, _ = server.communicate(timeout=TIMEOUT_S)
        assert server.returncode == 0, output
        assert "threads: 2 workers x" in output
        assert not any(alive(one) for one in processes)
    finally:
        kill(server)


@pytest.mark.server
def test_sagemaker_names_the_models_while_it_serves(sentiment_archive: Built, tmp_path: Path) -> None:
    """The calls that SageMaker's contract for multi-model endpoints lists, with archives as it unpacks them."""
    good, changed = tmp_path / "models/good/model", tmp_path / "models/changed/model"
    extract_archive(sentiment_archive.path, good)
    extract_archive(sentiment_archive.path, changed)
    (changed / "handlers/extra.py").write_text("")
    (tmp_path / "store").mkdir()
    port = free_ports().first
    environ = {
        "SAGEMAKER_MULTI_MODEL": "true",
        "MODEL_STORE": str(tmp_path / "store"),
        "MARSMITH_HOME": str(tmp_path / "home"),
        "SAGEMAKER_BIND_TO_PORT": str(port),
    }
    url = f"http://127.0.0.1:{port}"
    server = run("entrypoint", environ)
    try:
        wait_healthy(server, environ)
        assert requests.get(f"{url}/ping", timeout=TIMEOUT_S).ok
        assert requests.get(f"{url}/models", timeout=TIMEOUT_S).json() == {"models": []}
        load = {"model_name": "a", "url": str(good)}
        assert requests.post(f"{url}/models", json=load, timeout=TIMEOUT_S).status_code == 200
        assert requests.post(f"{url}/models", json=load, timeout=TIMEOUT_S).status_code == 409
        target = {"X-Amzn-SageMaker-Target-Model": "a.tar.gz", "Content-Type": "text/plain"}
        answer = requests.post(f"{url}/models/a/invoke", b"so good", headers=target, timeout=TIMEOUT_S)
        assert answer.status_code == 200
        assert answer.json()["label"] in {"negative", "neutral", "positive"}
        bad = {"model_name": "b", "url": str(changed)}
        assert requests.post(f"{url}/models", json=bad, timeout=TIMEOUT_S).status_code == 424
        assert [one["modelName"] for one in requests.get(f"{url}/models", timeout=TIMEOUT_S).json()["models"]] == ["a"]
        assert requests.delete(f"{url}/models/a", timeout=TIMEOUT_S).status_code == 200
        assert requests.delete(f"{url}/models/a", timeout=TIMEOUT_S).status_code == 404
        server.send_signal(signal.SIGTERM)
        output, _ = server.communicate(timeout=TIMEOUT_S)
        assert server.returncode == 0, output
        assert "handlers/extra.py was added" in output
    finally:
        kill(server)


def authorization(home: Path) -> dict[str, str]:
    keys = json.loads((home / "key_file.json").read_text())
    return {"Authorization": f"Bearer {keys['inference']['key']}"}


@pytest.mark.server
def test_it_ends_when_java_cannot_run(sentiment_archive: Built, tmp_path: Path) -> None:
    """TorchServe's launcher ends well whatever becomes of Java."""
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 3\n")
    java.chmod(0o755)
    process = run(
        "entrypoint",
        {
            "MODEL_STORE": str(sentiment_archive.path.parent),
            "MARSMITH_HOME": str(tmp_path / "home"),
            "SAGEMAKER_BIND_TO_PORT": str(free_ports().first),
            "JAVA_HOME": str(tmp_path),
        },
    )
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert "TorchServe ended by itself" in output


def test_what_is_wrong_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MODEL_STORE", str(tmp_path))
    assert main([]) == 1
    assert capsys.readouterr().err.startswith("marsmith: error: There is no archive in ")
    assert main(["/nowhere/program"]) == 1
    assert "/nowhere/program cannot be run" in capsys.readouterr().err


def test_another_command_runs_in_its_place() -> None:
    command = [sys.executable, "-m", "marsmith.container.entrypoint", "echo", "hello"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "hello\n"


def test_what_is_not_ready_is_not_healthy(tmp_path: Path) -> None:
    environ = {"MARSMITH_HOME": str(tmp_path), "SAGEMAKER_BIND_TO_PORT": str(free_ports().first)}
    assert not healthy(environ)
    (tmp_path / "models").write_text("sentiment\n")
    assert not healthy(environ)
