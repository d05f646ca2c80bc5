"""The handlers of both tasks under each of TorchServe's service envelopes: right answers, errors and explanations."""

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from ts.torch_handler.request_envelope.base import BaseEnvelope
from ts.torch_handler.request_envelope.body import BodyEnvelope
from ts.torch_handler.request_envelope.json import JSONEnvelope
from ts.torch_handler.request_envelope.kserve import KServeEnvelope
from ts.torch_handler.request_envelope.kservev2 import KServev2Envelope

from handlers.food import FoodHandler
from handlers.sentiment import SentimentHandler
from tests.handlers.transformers_reference import Reference
from tests.handlers.worker import Post
from tests.handlers.wrapped import Wrapped, outputs, shouting, v1, v2

EXPLAIN = {"handler": {"explain_runs": 20}}
ROW: Mapping[type[BaseEnvelope], Any] = {
    KServeEnvelope: (v1, lambda answer: answer.value["predictions"]),
    KServev2Envelope: (v2, lambda answer: outputs(answer)),
    JSONEnvelope: (v1, lambda answer: answer.value["predictions"]),
    BodyEnvelope: (lambda *values: Post.json(list(values)), lambda answer: answer.value),
}


@pytest.mark.parametrize("envelope", list(ROW))
def test_texts_get_the_scores_that_they_get_without_an_envelope(
    references: Mapping[str, Reference], envelope: type[BaseEnvelope]
) -> None:
    post, answers = ROW[envelope]
    reference = references["bert"]
    worker = Wrapped(envelope, SentimentHandler(), reference.root)
    (answer,) = worker.ask(post("good day", "", "bad day"))
    first, error, last = answers(answer)
    assert first["scores"] == pytest.approx(reference.scores("good day"), abs=1e-5)
    assert last["scores"] == pytest.approx(reference.scores("bad day"), abs=1e-5)
    assert error["error"]["code"] == 422


@pytest.mark.parametrize("envelope", list(ROW))
def test_images_are_read_as_base64(image_root: Path, envelope: type[BaseEnvelope]) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (32, 32), "red").save(stream, "PNG")
    encoded = base64.b64encode(stream.getvalue()).decode()
    post, answers = ROW[envelope]
    (answer,) = Wrapped(envelope, FoodHandler(), image_root).ask(post(encoded, "no image"))
    photo, error = answers(answer)
    assert len(photo["dishes"]) == 3
    assert error["error"]["code"] == 400


@pytest.mark.parametrize("envelope", list(ROW))
def test_explanations_come_through_every_envelope(
    references: Mapping[str, Reference], envelope: type[BaseEnvelope]
) -> None:
    post, answers = ROW[envelope]
    asked = post("good day", "bad day")
    worker = Wrapped(envelope, SentimentHandler(), references["bert"].root, EXPLAIN)
    (answer,) = worker.ask(Post(asked.body, asked.content_type, explain=True))
    found = answer.value["explanations"] if envelope is KServeEnvelope else answers(answer)
    assert [set(explained) for explained in found] == [{"prediction", "explanation"}] * 2


@pytest.mark.parametrize("envelope", list(ROW))
def test_an_answer_that_torchserve_would_write_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, envelope: type[BaseEnvelope]
) -> None:
    monkeypatch.setattr("handlers.responses.MAX_RESPONSE_BYTES", 5000)
    post, _ = ROW[envelope]
    (answer,) = shouting(tmp_path, envelope).ask(post("long", "long", "long"))
    assert (answer.status, answer.error["type"]) == (413, "too_large")
