"""The modelcar on a real TorchServe, started as KServe starts it: with its configuration and a service envelope."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from marsmith.builder import Built
from marsmith.image.archive import read_image
from marsmith.image.tree import read_tree
from marsmith.torchserve.java import java_home
from marsmith.torchserve.processes import Guarded
from tests.packaging.ports import free_ports
from tests.packaging.targets.files import artefact
from tests.packaging.targets.test_sagemaker_server import TIMEOUT_S, ask, wait_ready

JSON = "application/json"
MOUNTED = "/mnt/models"


@contextmanager
def kserve(car: Path, home: Path, envelope: str) -> Iterator[str]:
    """TorchServe on the modelcar's files; the URL that it serves at."""
    home.mkdir()
    for name, file in read_tree(read_image(car, "amd64"), lambda _: True).files.items():
        if file.kind == "file":
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(file.content or b"")
    port = free_ports().first
    config = home / "models/config/config.properties"
    config.write_text(local(config.read_text().replace(MOUNTED, str(home / "models")), port))
    places = dict.fromkeys(("TEMP", "TMPDIR", "LOG_LOCATION", "METRICS_LOCATION"), str(home))
    environ = os.environ | places | {"TS_SERVICE_ENVELOPE": envelope, "PYTHONDONTWRITEBYTECODE": "1"}
    # The same packages are installed here, and no test should wait for pip.
    environ |= {"TS_INSTALL_PY_DEP_PER_MODEL": "false", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    if found := java_home():
        environ["JAVA_HOME"] = str(found)
    command = [sys.executable, "-m", "ts.model_server", "--start", "--foreground", "--ts-config", str(config)]
    with (home / "log").open("wb") as log:
        server = Guarded(command, cwd=home, env=environ, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_ready(server, f"{url}/models/sentiment", home / "log")
        yield url
    finally:
        server.end()


def local(properties: str, port: int) -> str:
    """The properties with addresses that this machine has free."""
    addresses = {"inference_address": 0, "management_address": 0, "metrics_address": 2}
    ports = {"grpc_inference_port": 3, "grpc_management_port": 4}
    lines = dict(line.split("=", 1) for line in properties.splitlines())
    lines |= {name: f"http://127.0.0.1:{port + offset}" for name, offset in addresses.items()}
    lines |= {name: str(port + offset) for name, offset in ports.items()}
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def asked(url: str, *bodies: Any) -> list[requests.Response]:
    return ask(f"{url}/predictions/sentiment", [(json.dumps(body).encode(), JSON) for body in bodies])


@pytest.mark.server
def test_kserve_v1_has_an_answer_for_each_instance_of_each_request(homes: Built, tmp_path: Path) -> None:
    with kserve(artefact(homes, ".modelcar.tar"), tmp_path / "home", "kserve") as url:
        (model,) = requests.get(f"{url}/models/sentiment", timeout=TIMEOUT_S).json()
        assert model["batchSize"] == 1
        bodies = [{"instances": [f"what a day {number}", {"data": "so sad"}]} for number in range(6)]
        answers = asked(url, *bodies, {"instances": ["good", 7]}, {"instances": []})
    assert [answer.status_code for answer in answers] == [200] * 7 + [422]
    for answer in answers[:6]:
        assert [set(one) >= {"label", "scores"} for one in answer.json()["predictions"]] == [True, True]
    assert answers[6].json()["predictions"][1]["error"]["code"] == 422
    assert answers[7].json()["error"]["type"] == "unprocessable"


@pytest.mark.server
def test_kserve_v2_has_an_answer_for_each_tensor_of_each_request(homes: Built, tmp_path: Path) -> None:
    def tensor(text: Any, shape: Any = -1) -> dict[str, Any]:
        return {"name": "text", "shape": shape, "datatype": "BYTES", "data": [text]}

    with kserve(artefact(homes, ".modelcar.tar"), tmp_path / "home", "kservev2") as url:
        bodies = [{"id": f"id-{number}", "inputs": [tensor(f"what a day {number}", [1])]} for number in range(6)]
        answers = asked(url, *bodies, {"inputs": [tensor("good"), tensor(7)]}, {"inputs": [tensor("a", [2])]})
    assert [answer.status_code for answer in answers] == [200] * 7 + [422]
    for number, answer in enumerate(answers[:6]):
        value = answer.json()
        assert (value["id"], value["model_name"]) == (f"id-{number}", "sentiment")
        (output,) = value["outputs"]
        assert (output["datatype"], output["shape"]) == ("BYTES", [1])
        assert "scores" in json.loads(output["data"][0])
    good, bad = (json.loads(output["data"][0]) for output in answers[6].json()["outputs"])
    assert "scores" in good
    assert bad["error"]["code"] == 422
    assert "first element" in answers[7].json()["error"]["message"]
