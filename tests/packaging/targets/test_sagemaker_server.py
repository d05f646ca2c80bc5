"""model.tar.gz on a real TorchServe: as the AWS containers start it, and as Marsmith's image does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from marsmith.builder import Built
from marsmith.torchserve.java import java_home
from tests.packaging.container.processes import kill
from tests.packaging.ports import free_ports
from tests.packaging.targets.answers import PICTURE, difference, golden_payloads, of_the_archive

START = Path(__file__).with_name("toolkit_start.py")
TIMEOUT_S = 300
BATCH = 8
BATCH_DELAY_MS = 1000


@contextmanager
def aws_container(tree: Path, home: Path, **settings: str) -> Iterator[str]:
    """The toolkit's start command with a model where SageMaker puts it; the URL it serves at."""
    port = free_ports().first
    home.mkdir()
    places = dict.fromkeys(("TEMP", "TMPDIR", "LOG_LOCATION", "METRICS_LOCATION"), str(home))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environ = os.environ | places | settings | {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    environ |= {"SAGEMAKER_BASE_DIR": str(tree.parent), "SAGEMAKER_BIND_TO_PORT": str(port)}
    if found := java_home():
        environ["JAVA_HOME"] = str(found)
    config = home / "sagemaker-ts.properties"
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, str(START), str(config), str(port + 1)],
            cwd=home,
            env=environ,
            stdout=log,
            stderr=log,
            text=True,
        )
    try:
        wait_ready(server, f"http://127.0.0.1:{port}/models/model", home / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(TIMEOUT_S)
        finally:
            kill(server)
            for process in psutil.process_iter(["cmdline"]):
                if str(config) in (process.info["cmdline"] or []):
                    process.kill()


def wait_ready(server: subprocess.Popen[str], url: str, log: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not ready(url):
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(1)


def ready(url: str) -> bool:
    try:
        (model,) = requests.get(url, timeout=TIMEOUT_S).json()
    except (requests.RequestException, ValueError):
        return False
    return any(worker["status"] == "READY" for worker in model["workers"])


def ask(url: str, payloads: list[tuple[bytes, str]]) -> list[requests.Response]:
    """All at once, so that they meet in a batch."""

    def one(payload: tuple[bytes, str]) -> requests.Response:
        body, content_type = payload
        return requests.post(url, data=body, headers={"Content-Type": content_type}, timeout=TIMEOUT_S)

    with ThreadPoolExecutor(len(payloads)) as pool:
        return list(pool.map(one, payloads))


@pytest.mark.server
def test_the_containers_of_aws_serve_it_in_batches(homes: Built, sagemaker_tree: Path, tmp_path: Path) -> None:
    settings = {
        "SAGEMAKER_TS_BATCH_SIZE": str(BATCH),
        "SAGEMAKER_TS_MAX_BATCH_DELAY": str(BATCH_DELAY_MS),
        "SAGEMAKER_TS_MIN_WORKERS": "1",
        "SAGEMAKER_TS_MAX_WORKERS": "2",
        "SAGEMAKER_TS_RESPONSE_TIMEOUT": "90",
    }
    with aws_container(sagemaker_tree, tmp_path / "home", **settings) as url:
        (model,) = requests.get(f"{url}/models/model", timeout=TIMEOUT_S).json()
        named: dict[str, Any] = {"batchSize": BATCH, "maxBatchDelay": BATCH_DELAY_MS, "minWorkers": 1, "maxWorkers": 2}
        assert {name: model[name] for name in named} == named
        good = [(f"what a day number {number}".encode(), "text/plain") for number in range(BATCH - 1)]
        answers = ask(f"{url}/invocations", [*good[:3], PICTURE, *good[3:]])
        assert [answer.status_code for answer in answers] == [200] * 3 + [415] + [200] * 4
        golden = ask(f"{url}/invocations", golden_payloads(homes.path))
        assert difference([answer.json() for answer in golden], of_the_archive(homes.path)) < 1e-6


@contextmanager
def image(home: Path, **settings: str) -> Iterator[str]:
    """Our image's entry point, once it answers /ping; what it says is in the home's log."""
    port = free_ports().first
    environ = {"MARSMITH_HOME": str(home), "SAGEMAKER_BIND_TO_PORT": str(port), **settings}
    url, said = f"http://127.0.0.1:{port}", home.with_suffix(".log")
    command = [sys.executable, "-m", "marsmith.container.entrypoint"]
    with said.open("wb") as log:
        server = subprocess.Popen(command, env=os.environ | environ, stdout=log, stderr=log, text=True)
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while not answers(f"{url}/ping"):
            assert server.poll() is None, said.read_text()
            assert time.monotonic() < deadline, said.read_text()
            time.sleep(1)
        yield url
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(TIMEOUT_S)
        kill(server)


@pytest.mark.server
def test_the_image_serves_it_as_a_multi_model_endpoint(homes: Built, sagemaker_tree: Path, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with image(tmp_path / "home", SAGEMAKER_MULTI_MODEL="true", MODEL_STORE=str(tmp_path / "store")) as url:
        loaded = requests.post(f"{url}/models", json={"model_name": "a", "url": str(sagemaker_tree)}, timeout=TIMEOUT_S)
        assert loaded.status_code == 200, (tmp_path / "home.log").read_text()
        golden = ask(f"{url}/models/a/invoke", golden_payloads(homes.path))
        assert difference([answer.json() for answer in golden], of_the_archive(homes.path)) < 1e-6
        changed = sagemaker_tree / "code/inference.py"
        changed.write_text(changed.read_text() + "\n")
        again = {"model_name": "b", "url": str(sagemaker_tree)}
        assert requests.post(f"{url}/models", json=again, timeout=TIMEOUT_S).status_code == 424
    assert "the content of code/inference.py was changed" in (tmp_path / "home.log").read_text()


@pytest.mark.server
def test_the_image_serves_it_as_an_endpoint_of_one_model(homes: Built, sagemaker_tree: Path, tmp_path: Path) -> None:
    with image(tmp_path / "home", MODEL_STORE=str(sagemaker_tree)) as url:
        answered = ask(f"{url}/invocations", [PICTURE, *golden_payloads(homes.path)])
        assert answered[0].status_code == 415
        assert difference([answer.json() for answer in answered[1:]], of_the_archive(homes.path)) < 1e-6
        host, _, port = url.rpartition(":")
        (model,) = requests.get(f"{host}:{int(port) + 1}/models/sentiment", timeout=TIMEOUT_S).json()
        # What [serving] says: the manifest names no configuration.
        assert (model["batchSize"], model["minWorkers"]) == (16, 1)


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=TIMEOUT_S).ok
    except requests.RequestException:
        return False
