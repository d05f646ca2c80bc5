"""A real, unmodified TorchServe on loopback: explanations by /explanations, and what its metrics say of it all."""

import concurrent.futures
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from PIL import Image

from handlers.metrics import COUNTERS
from marsmith.builder import build
from marsmith.ground.serving import EXPLAIN_RUNS
from marsmith.mar.reader import read_json, read_yaml
from marsmith.network.text_reference import TextReference
from marsmith.recipe.checkpoint import resolve
from marsmith.recipe.recipe import Recipe
from marsmith.torchserve.configuration import HOST
from marsmith.torchserve.server import Server
from tests.packaging.ports import free_ports
from tests.tiers import builds
from tests.tiny import food_checkpoint, sentiment_checkpoint, write_recipe

TIMEOUT_S = 60
SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    return {
        # A padded graph; a packed one is explained in tests/handlers.
        "why": write_recipe(sentiment_checkpoint(root / "why", "mpnet"), name="why", explain=True),
        "plain": write_recipe(sentiment_checkpoint(root / "plain"), name="plain"),
        "food": write_recipe(food_checkpoint(root / "food"), name="food", task="food", explain=True),
    }


@pytest.fixture(scope="module")
@builds
def server(recipes: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    store = tmp_path_factory.mktemp("store")
    with Server([build(recipe, store).path for recipe in recipes.values()], free_ports()) as running:
        running.start()
        running.wait_ready()
        yield running


def ask(server: Server, model: str, data: Any, verb: str = "explanations") -> requests.Response:
    kind = {"Content-Type": "text/plain"} if isinstance(data, str) else {}
    return requests.post(f"{server.ports.url}/{verb}/{model}", data=data, headers=kind, timeout=TIMEOUT_S)


def counted(server: Server) -> dict[str, dict[str, float]]:
    """The samples of each counter at the metrics address, by their labels in brief."""
    text = requests.get(f"http://{HOST}:{server.ports.first + 2}/metrics", timeout=TIMEOUT_S).text
    found: dict[str, dict[str, float]] = {}
    for name, labels, value in SAMPLE.findall(text):
        pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        kind = pairs.get("Reason") or pairs.get("Stage") or ""
        found.setdefault(name, {})[f"{pairs.get('ModelName')} {kind}".strip()] = float(value)
    return found


def picture() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(5).integers(0, 256, (30, 40, 3), np.uint8)).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.server
def test_explanations_come_by_rest_in_one_batch_with_predictions(server: Server, recipes: dict[str, Path]) -> None:
    """pytorch/serve#934: asked for at once, so that TorchServe batches them."""
    text = "what a great day at the beach"
    cases = [("predictions", text), ("explanations", text), ("explanations", " "), ("explanations", text)]
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        answers = list(pool.map(lambda case: ask(server, "why", case[1], case[0]), cases))
    assert [answer.status_code for answer in answers] == [200, 200, 422, 200]
    prediction, first, _, last = (answer.json() for answer in answers)
    assert first == last
    assert first["prediction"]["scores"] == pytest.approx(prediction["scores"], abs=1e-5)
    explanation = first["explanation"]
    scores = TextReference(resolve(Recipe.load(recipes["why"])), "none").probabilities(text)
    logits = np.array([explanation["logits"][label] for label in ("negative", "neutral", "positive")])
    np.testing.assert_allclose(np.exp(logits) / np.exp(logits).sum(), scores, atol=1e-4)
    for label, logit in explanation["logits"].items():
        added = sum(token["attributions"][label] for token in explanation["tokens"])
        assert added == pytest.approx(logit - explanation["baseline_logits"][label], abs=1e-4)


@pytest.mark.server
def test_a_saliency_map_comes_by_rest(server: Server) -> None:
    answer = ask(server, "food", picture())
    assert answer.status_code == 200
    explanation = answer.json()["explanation"]
    assert np.shape(explanation["attributions"]) == (7, 7)
    added = np.sum(explanation["attributions"])
    assert added == pytest.approx(explanation["logit"] - explanation["baseline_logit"], abs=1e-4)


@pytest.mark.server
def test_an_archive_without_explanations_answers_501(server: Server) -> None:
    answer = ask(server, "plain", "a great day")
    assert (answer.status_code, answer.json()["error"]["type"]) == (501, "not_supported")


@pytest.mark.server
def test_every_counter_is_seen_at_the_metrics_address(server: Server) -> None:
    """pytorch/serve#2450, pytorch/serve#2979, pytorch/serve#2963"""
    before = counted(server)
    ask(server, "plain", "so tired of this coffee " * 40, "predictions")
    ask(server, "plain", b"\x89PNG\r\n\x1a\n", "predictions")
    ask(server, "plain", "a great day")
    ask(server, "food", picture(), "predictions")
    after = before

    def added(name: str, kind: str) -> float:
        return after.get(name, {}).get(kind, 0) - before.get(name, {}).get(kind, 0)

    # TorchServe reads a worker's metrics beside its answers, so they may be seen a little later.
    deadline = time.monotonic() + TIMEOUT_S
    while not (added("marsmith_instances_total", "food") and added("marsmith_rejected_total", "plain not_supported")):
        assert time.monotonic() < deadline
        after = counted(server)

    assert set(COUNTERS) <= set(after)
    assert added("marsmith_instances_total", "plain") == 2
    assert added("marsmith_truncated_total", "plain") == 1
    assert added("marsmith_tokens_total", "plain") == 40
    assert added("marsmith_rejected_total", "plain not_supported") == 1
    assert added("marsmith_rejected_total", "plain malformed") == 1
    assert added("marsmith_pixels_total", "food") == 30 * 40
    for stage in ("decode", "tokenise", "network", "encode"):
        assert added("marsmith_seconds_total", f"plain {stage}") > 0
    assert {"PredictionTime", "ts_inference_requests_total", "Requests2XX"} <= set(after)


def command(server: Server, *arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "marsmith", "explain", "--url", server.ports.url, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})


@pytest.mark.server
def test_the_command_shows_an_explanation(server: Server, tmp_path: Path) -> None:
    words, photo, overlay = tmp_path / "words.txt", tmp_path / "photo.png", tmp_path / "why.png"
    words.write_text("a [red]great[/] day")
    photo.write_bytes(picture())
    shown = command(server, "why", words)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert {"great", "day", "positive"} <= set(re.findall(r"\w+", shown.stdout))
    assert shown.stdout.count("[") == shown.stdout.count("]") == 2, "the text's own brackets are no markup"
    told = json.loads(command(server, "why", words, "--json").stdout)
    assert f"{told['explanation']['logits']['positive']:+.2f}" in shown.stdout
    shown = command(server, "food", photo, "-o", overlay)
    assert (shown.returncode, shown.stderr) == (0, "")
    with Image.open(overlay) as image:
        assert (image.format, image.size) == ("PNG", (32, 32))


@pytest.mark.server
@pytest.mark.parametrize(
    ("model", "content", "options", "message"),
    [
        ("plain", b"ok", [], "explain = true (status 501)."),
        ("why", b" ", [], "(status 422)"),
        ("why", b"ok", ["-o", "why.png"], "leave out --output"),
        ("food", b"\xff\xd8\xff", [], "(status 400)"),
        ("food", None, [], "cannot be read: No such file"),
        ("food", picture(), ["-o", "nowhere/why.png"], "cannot be written: No such file"),
    ],
)
def test_what_cannot_be_explained_is_one_sentence(
    server: Server, tmp_path: Path, model: str, content: bytes | None, options: list[str], message: str
) -> None:
    source = tmp_path / "source"
    if content is not None:
        source.write_bytes(content)
    shown = command(server, model, source, *(tmp_path / one if "png" in one else one for one in options))
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr.startswith("error: ")
    assert message in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.build
def test_the_recipe_decides_whether_an_archive_explains(recipes: dict[str, Path], tmp_path: Path) -> None:
    for name, runs in (("why", EXPLAIN_RUNS), ("plain", 0)):
        archive = build(recipes[name], tmp_path).path
        serving = read_json(archive, "model/serving.json")
        assert read_yaml(archive, "model-config.yaml")["handler"]["explain_runs"] == runs
        assert serving["options"]["explain_runs"] == runs
