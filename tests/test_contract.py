"""Across the line: an archive as it lies in the zip, in TorchServe's real worker process, without Java."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from marsmith.builder import build
from marsmith.errors import ServerError
from marsmith.mar.members import DIGESTS, MANIFEST
from marsmith.mar.writer import write_archive
from marsmith.torchserve.worker import Worker, WorkerAnswer, WorkerRequest
from tests.packaging.forgery import members, unpacked
from tests.tiers import builds
from tests.tiny import food_checkpoint, sentiment_checkpoint, write_recipe

TEXT = WorkerRequest.raw(b"a great day at the beach", "text/plain")


@pytest.fixture(scope="module")
@builds
def sentiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = sentiment_checkpoint(tmp_path_factory.mktemp("checkpoint"), model_type="roberta")
    return build(write_recipe(directory, name="sentiment", normalise="tweet"), tmp_path_factory.mktemp("store")).path


@pytest.fixture(scope="module")
@builds
def food(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = food_checkpoint(tmp_path_factory.mktemp("checkpoint"))
    return build(write_recipe(directory, name="food", task="food"), tmp_path_factory.mktemp("store")).path


@pytest.fixture(scope="module")
def worker(sentiment: Path) -> Iterator[Worker]:
    with Worker(sentiment) as running:
        yield running


def body(answer: WorkerAnswer) -> Any:
    return json.loads(answer.body)


@pytest.mark.slow
def test_one_bad_request_leaves_its_neighbours_alone(worker: Worker) -> None:
    """pytorch/serve#1230, pytorch/serve#2121, pytorch/serve#2853."""
    alone = worker.predict([TEXT])[0]
    first, junk, last = worker.predict([TEXT, WorkerRequest.raw(b"\xff\xfe", "text/plain"), TEXT])
    assert (first.status, junk.status, last.status) == (200, 400, 200)
    assert first.phrase == "OK"
    assert body(first)["label"] == body(alone)["label"]
    assert body(first)["scores"] == pytest.approx(body(alone)["scores"], abs=1e-5)
    assert body(last)["scores"] == pytest.approx(body(alone)["scores"], abs=1e-5)
    assert body(junk)["error"]["request_id"] == "request-1"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (WorkerRequest.raw(b'{"text": "good"}', "application/json"), 200),
        (WorkerRequest.raw(b'{"text": "good"}', "Application/JSON"), 200),  # TorchServe does not decode this spelling
        (WorkerRequest([("body", "", b'["a", "b"]')], {"content-TYPE": "application/json"}), 200),
        (WorkerRequest([("text", "", b"good")]), 200),
        (WorkerRequest([]), 422),
        (WorkerRequest.raw(b""), 422),
        (WorkerRequest.raw(b"[" * 100_000, "application/json"), 400),
        (WorkerRequest.raw(b'{"text": "\\ud800"}', "application/json"), 400),
        (WorkerRequest.raw(b'{"text": NaN}', "application/json"), 422),
        (WorkerRequest.raw(b"x" * 1_048_577, "text/plain"), 413),
        (WorkerRequest.raw(b"x\n[METRICS]evil.ms:1|#Level:Model", "text/plain"), 200),
    ],
    ids=range(11),
)
def test_every_form_gets_an_answer_and_the_worker_lives(worker: Worker, request_: WorkerRequest, status: int) -> None:
    answers = worker.predict([TEXT, request_, TEXT])
    assert [answer.status for answer in answers] == [200, status, 200]
    assert all(answer.headers["content-type"] == "application/json; charset=utf-8" for answer in answers)
    assert all(body(answer) for answer in answers)
    assert worker.alive


def test_nothing_that_a_user_sent_is_in_the_log(worker: Worker) -> None:
    """pytorch/serve's own examples print the text, which also lets it forge metrics lines."""
    secret = "my private diary"
    worker.predict([WorkerRequest.raw(f"{secret}\n[METRICS]Evil.ms:1".encode(), "text/plain")])
    worker.predict([WorkerRequest.raw(f'{{"text": "{secret}'.encode(), "application/json")])
    log = worker.log.read_text()
    assert "sentiment 1.0 loaded" in log
    assert secret not in log
    assert "Evil" not in log


def test_a_photo_and_junk_beside_it(food: Path) -> None:
    stream = io.BytesIO()
    Image.new("L", (64, 48), 99).save(stream, "JPEG")
    with Worker(food) as worker:
        good, junk = worker.predict([WorkerRequest.raw(stream.getvalue(), "image/jpeg"), WorkerRequest.raw(b"junk")])
        assert (good.status, junk.status) == (200, 400)
        assert len(body(good)["dishes"]) == 4


def test_a_model_that_cannot_load_says_why(sentiment: Path, tmp_path: Path) -> None:
    """pytorch/serve#2030: the reason, not a crash loop without words."""
    broken = tmp_path / "broken.mar"
    files = dict(unpacked(sentiment.read_bytes()))
    del files["model/tokenizer.json"], files[DIGESTS]
    write_archive(broken, members(files))
    with pytest.raises(ServerError, match="could not load its model"), Worker(broken):
        pass


@pytest.mark.slow
def test_a_slow_start_has_the_start_ups_timeout(tmp_path: Path) -> None:
    """pytorch/serve#3261: a warm-up may take longer than an answer."""
    handler = b"import time\ntime.sleep(2)\n\n\ndef handle(data, context):\n    return data and ['ok'] * len(data)\n"
    manifest = json.dumps({"model": {"modelName": "m", "handler": "slow.py", "configFile": "model-config.yaml"}})
    config = b"responseTimeout: 1\nstartupTimeout: 60\n"
    path = tmp_path / "m.mar"
    write_archive(path, members({"slow.py": handler, "model-config.yaml": config, MANIFEST: manifest.encode()}))
    with Worker(path) as worker:
        assert [answer.body for answer in worker.predict([TEXT, TEXT])] == [b"ok", b"ok"]


def test_an_ascii_locale_changes_nothing(food: Path, sentiment: Path) -> None:
    """pytorch/serve#821: a container without LANG, where Python's own default for files may be ASCII."""
    ascii_locale = {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    text = WorkerRequest.raw("schön 😀 很好".encode(), "text/plain")
    with Worker(sentiment) as usual, Worker(sentiment, ascii_locale) as bare:
        assert [body(answer) for answer in bare.predict([text])] == [body(answer) for answer in usual.predict([text])]
    Image.new("RGB", (64, 48), "green").save(stream := io.BytesIO(), "PNG")
    with Worker(food, ascii_locale) as bare:
        (answer,) = bare.predict([WorkerRequest.raw(stream.getvalue())])
    assert "姓名" in {dish["label"] for dish in body(answer)["dishes"]}


def test_options_come_from_the_environment(food: Path) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (64, 48), "green").save(stream, "PNG")
    with Worker(food, {"MARSMITH_TOP_K": "2", "MARSMITH_MAX_PIXELS": "5000"}) as worker:
        (answer,) = worker.predict([WorkerRequest.raw(stream.getvalue())])
        assert len(body(answer)["dishes"]) == 2
        Image.new("RGB", (100, 100)).save(stream := io.BytesIO(), "PNG")
        (answer,) = worker.predict([WorkerRequest.raw(stream.getvalue())])
        assert answer.status == 413
