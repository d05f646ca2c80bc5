"""A real, unmodified TorchServe on loopback: what users see over REST."""

import base64
import concurrent.futures
import io
import json
import socket
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
from PIL import Image
from rich.console import Console

from marsmith.builder import Built
from marsmith.cli.predicting import predict_to
from marsmith.errors import ServerError
from marsmith.mar.members import MANIFEST
from marsmith.mar.writer import write_archive
from marsmith.resources import config_properties
from marsmith.rest.client import Client
from marsmith.torchserve.configuration import Ports, effective_config
from marsmith.torchserve.server import Server
from tests.packaging.forgery import members
from tests.packaging.ports import free_ports

TIMEOUT_S = 60


def png(colour: str = "red", size: tuple[int, int] = (50, 40)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, colour).save(stream, "PNG")
    return stream.getvalue()


def test_the_effective_configuration_changes_ports_and_tokens_only() -> None:
    ports = Ports(9100)
    original = config_properties().read_text(encoding="utf-8").splitlines()
    changed = effective_config(ports, token=True).splitlines()
    differing = {line.partition("=")[0] for line in set(original) ^ set(changed)}
    assert differing == {*ports.properties(), "disable_token_authorization", "metrics_config"}
    assert "inference_address=http://127.0.0.1:9100" in changed
    assert "enable_model_api=false" in changed


def test_a_java_that_does_not_run_is_quoted(
    food_archive: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'UnsupportedClassVersionError: too old' >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with Server([food_archive.path], free_ports()) as running:
        running.start()
        with pytest.raises(ServerError, match=r"ended before it was ready.*UnsupportedClassVersionError: too old"):
            running.wait_ready()


def post(server: Server, model: str, data: Any, content_type: str | None) -> requests.Response:
    headers = {"Content-Type": content_type} if content_type else {}
    return requests.post(f"{server.ports.url}/predictions/{model}", data=data, headers=headers, timeout=TIMEOUT_S)


@pytest.mark.server
@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        ('{"text": "a great day"}', "application/json"),
        ('{"data": "a great day"}', "application/json; charset=utf-8"),
        ('"a great day"', "application/json"),
        ("a great day", "text/plain"),
        ("a great day", None),
        ({"data": "a great day"}, None),
    ],
)
def test_a_text_may_come_in_any_form(server: Server, data: Any, content_type: str | None) -> None:
    response = post(server, "sentiment", data, content_type)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    body = response.json()
    assert body["label"] == max(body["scores"], key=body["scores"].get)
    assert sum(body["scores"].values()) == pytest.approx(1, abs=1e-5)
    assert body == post(server, "sentiment", '{"text": "a great day"}', "application/json").json()


@pytest.mark.server
def test_an_image_may_come_in_any_form(server: Server) -> None:
    raw = post(server, "food", png(), "image/png").json()
    encoded = base64.b64encode(png()).decode()
    assert [dish["label"] for dish in raw["dishes"]] != []
    assert {dish["label"]: dish["nutrition"] is not None for dish in raw["dishes"]} == {
        "apple": True,
        "pear": False,
        "plum": False,
    }
    for data, content_type in [
        (png(), None),
        (json.dumps({"data": encoded}), "application/json"),
        (json.dumps({"b64": f"data:image/png;base64,{encoded}"}), "application/json"),
    ]:
        assert post(server, "food", data, content_type).json() == raw
    files = {"photo": ("x.png", png(), "image/png")}
    answer = requests.post(f"{server.ports.url}/predictions/food", files=files, timeout=TIMEOUT_S)
    assert answer.json() == raw


@pytest.mark.server
def test_a_bad_request_gets_its_own_4xx_and_its_neighbours_get_200(server: Server) -> None:
    """pytorch/serve#1230, pytorch/serve#1316, pytorch/serve#1225: asked at once, so that TorchServe batches them."""
    cases = [
        ("sentiment", "good", "text/plain", 200),
        ("sentiment", "", "text/plain", 422),
        ("sentiment", "{", "application/json", 400),
        ("sentiment", b"\xff\xfe\xfa", "text/plain", 400),
        ("sentiment", "3", "application/json", 422),
        ("sentiment", png(), "image/png", 415),
        ("sentiment", json.dumps({"text": "many words " * 5000}), "application/json", 200),
        ("food", png(), None, 200),
        ("food", b"junk", None, 400),
        ("food", png()[:60], "image/png", 400),
        ("food", png("blue"), None, 200),
        ("food", b"\xff" * 21_000_000, None, 413),
        ("sentiment", "good", "text/plain", 200),
    ]
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        answers = list(pool.map(lambda case: post(server, *case[:3]), cases))
    assert [answer.status_code for answer in answers] == [case[3] for case in cases]
    assert answers[6].json()["truncated"] is True
    for answer in answers:
        if answer.status_code != 200:
            error = answer.json()["error"]
            assert error["code"] == answer.status_code
            assert error["request_id"] == answer.headers["x-request-id"]


@pytest.mark.server
def test_predict_reports_each_input_in_its_place(server: Server, tmp_path: Path) -> None:
    texts, output = tmp_path / "texts.txt", tmp_path / "out.jsonl"
    texts.write_text("good\n\nbad\n", encoding="utf-8")
    quiet = Console(file=io.StringIO())
    failed = predict_to("sentiment", [], texts, output, server.ports.url, {}, as_json=False, out=quiet, err=quiet)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert failed == 1
    assert [(line["line"], line["status"]) for line in lines] == [(1, 200), (2, 422), (3, 200)]
    assert "label" in lines[0]["result"]
    assert "good" not in output.read_text()


@pytest.mark.server
def test_an_unknown_model_is_a_failed_item_with_the_servers_words(server: Server) -> None:
    answer = Client(server.ports.url).predict("nobody", "text")
    assert answer.status == 404
    assert "nobody" in answer.message


@pytest.mark.server
def test_metrics_are_prometheus_and_only_on_loopback(server: Server) -> None:
    text = requests.get(f"http://127.0.0.1:{server.ports.first + 2}/metrics", timeout=TIMEOUT_S).text
    assert "ts_inference_requests_total" in text
    ports = set(range(server.ports.first, server.ports.first + 5))
    listening = {
        (connection.laddr.port, connection.laddr.ip)
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port in ports
    }
    assert {port for port, _ in listening} == ports
    assert all(address.endswith("127.0.0.1") for _, address in listening)


@pytest.mark.server
def test_models_can_be_neither_added_nor_removed(server: Server, sentiment_archive: Built) -> None:
    url = f"{server.ports.management_url}/models"
    added = requests.post(url, params={"url": f"file://{sentiment_archive.path}"}, timeout=TIMEOUT_S)
    removed = requests.delete(f"{url}/sentiment", timeout=TIMEOUT_S)
    assert (added.status_code, removed.status_code) == (405, 405)


@pytest.mark.server
def test_workers_get_options_but_no_credentials(food_archive: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "HF_TOKEN", "DB_PASSWORD", "API_KEY"}
    for name in secrets:
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("MARSMITH_TOKEN_BUDGET", "256")
    with Server([food_archive.path], free_ports()) as running:
        running.start()
        running.wait_ready()
        url = f"{running.ports.management_url}/models/food"
        (model,) = requests.get(url, timeout=TIMEOUT_S).json()
        environ = psutil.Process(model["workers"][0]["pid"]).environ()
    assert environ["MARSMITH_TOKEN_BUDGET"] == "256"
    assert environ["MARSMITH_WORKERS"] == "1"
    assert not secrets & set(environ)


@pytest.mark.server
def test_with_tokens_only_clients_that_have_one_are_answered(food_archive: Built) -> None:
    with Server([food_archive.path], free_ports(), token=True) as running:
        running.start()
        running.wait_ready()
        assert Client(running.ports.url).predict("food", png()).status == 400
        assert Client(running.ports.url, running.headers()).predict("food", png()).ok
        home = Path(running._home)
    assert not home.exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", running.ports.first)) != 0


@pytest.mark.server
def test_a_metric_of_a_handlers_own_is_not_dropped(tmp_path: Path) -> None:
    """TorchServe drops what its metrics.yaml does not name.

    pytorch/serve#2450, pytorch/serve#2979, pytorch/serve#2963, pytorch/serve#2907
    """
    handler = (
        "def handle(data, context):\n"
        "    if data:\n"
        "        context.metrics.add_counter('DishesServed', len(data))\n"
        "    return data and [b'ok'] * len(data)\n"
    )
    manifest = {"runtime": "python", "model": {"modelName": "m", "modelVersion": "1.0", "handler": "m_handler.py"}}
    archive = tmp_path / "m.mar"
    write_archive(archive, members({"m_handler.py": handler.encode(), MANIFEST: json.dumps(manifest).encode()}))
    with Server([archive], free_ports()) as running:
        running.start()
        running.wait_ready()
        requests.post(f"{running.ports.url}/predictions/m", data=b"x", timeout=TIMEOUT_S)
        url = f"{running.ports.properties()['metrics_address']}/metrics"
        deadline = time.monotonic() + TIMEOUT_S
        while "DishesServed" not in requests.get(url, timeout=TIMEOUT_S).text:
            assert time.monotonic() < deadline
            time.sleep(0.1)
